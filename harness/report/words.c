#include "harness/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- clean words ---- */

/* Bytes of the character at `text`, if it is well-formed, shortest-form UTF-8 of a code point; 0: it is not. */
static int decode(uint32_t *code, const unsigned char *text)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc0 ? 2 : 0;
    if (length < 2) {
        *code = text[0];
        return length;
    }
    *code = text[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3fu);
    }
    return *code >= smallest[length] && text[0] < 0xf8 ? length : 0;
}

static bool shown(uint32_t code)
{
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool reorders =
        (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069); /* bidi overrides */
    return !control && !surrogate && !reorders && (code & 0xfffe) != 0xfffe && code < 0x110000;
}

const char *cp_word_clean(char out[CP_WORD], const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t used = 0;
    while (*at && used + 5 < CP_WORD) {
        uint32_t code;
        int length = decode(&code, at);
        if (length > 0 && shown(code)) {
            memcpy(out + used, at, (size_t)length);
            used += (size_t)length;
            at += length;
        } else {
            used += (size_t)snprintf(out + used, CP_WORD - used, "\\x%02x", *at++);
        }
    }
    out[used] = '\0';
    return out;
}

void cp_word_markdown(FILE *page, const char *clean)
{
    for (; *clean; clean++) {
        if (strchr("\\|<>&*`[]~", *clean))
            fputc('\\', page);
        fputc(*clean, page);
    }
}

size_t cp_word_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* ---- numbers ---- */

const char *cp_word_number(char out[CP_NUMBER], double value)
{
    if (isnan(value))
        snprintf(out, CP_NUMBER, "-");
    else if (value == 0)
        snprintf(out, CP_NUMBER, "0");
    else
        snprintf(out, CP_NUMBER, "%.1e", value);
    return out;
}

const char *cp_word_value(char out[CP_NUMBER], double value)
{
    snprintf(out, CP_NUMBER, "%.6g", value);
    return out;
}

const char *cp_word_shape(char out[CP_WORD], int dims, const int64_t *extent)
{
    size_t used = (size_t)snprintf(out, CP_WORD, "%s", dims ? "[" : "scalar");
    for (int axis = 0; axis < dims; axis++)
        used += (size_t)snprintf(out + used, CP_WORD - used, "%s%" PRId64 "%s", axis ? "," : "", extent[axis],
                                 axis == dims - 1 ? "]" : "");
    return out;
}

const char *cp_word_index(char out[CP_WORD], int dims, const int64_t *index)
{
    cp_word_shape(out, dims, index);
    if (dims == 0)
        return strcpy(out, "-");
    out[0] = '(';
    out[strlen(out) - 1] = ')';
    return out;
}

/* ---- sentences ---- */

const char *cp_word_parameter(const char *name)
{
    size_t prefix = strlen("grads/");
    return strncmp(name, "grads/", prefix) == 0 ? name + prefix : name[0] ? name : "-";
}

const char *cp_word_ranks(char out[CP_WORD], const cp_trial_row *row)
{
    int used = snprintf(out, CP_WORD, "%d", row->cp);
    if (row->dp > 1)
        used += snprintf(out + used, CP_WORD - (size_t)used, ", dp %d", row->dp);
    if (row->micro > 1)
        snprintf(out + used, CP_WORD - (size_t)used, ", micro %d", row->micro);
    return out;
}

bool cp_word_numbers_speak(const cp_tensor_result *tensor)
{
    bool structural = !tensor->measured || tensor->nonfinite_expected + tensor->nonfinite_actual > 0 ||
                      tensor->must_be_zero_violations > 0 ||
                      (tensor->actual_norm == 0 && tensor->expected_norm > 0);
    bool within = tensor->verdict == CP_DIFFERENT && cp_tensor_excess(tensor) <= 1;
    return tensor->verdict == CP_SAME || (!structural && !within);
}

const char *cp_word_tally(char out[CP_WORD], const cp_result *result)
{
    size_t used =
        (size_t)snprintf(out, CP_WORD, "%zu tensor%s", result->count, result->count == 1 ? "" : "s");
    const char *before = ": ";
    for (int verdict = CP_SAME; verdict <= CP_NOT_COMPARABLE && result->count > 0; verdict++) {
        size_t count = cp_result_tally(result, (cp_verdict)verdict);
        if (count == 0)
            continue;
        used += (size_t)snprintf(out + used, CP_WORD - used, "%s%zu %s", before, count,
                                 cp_verdict_name((cp_verdict)verdict));
        before = ", ";
    }
    return out;
}

const char *cp_word_limits(char out[CP_WORD], cp_limit_rule rule, int64_t runs)
{
    const char *name = cp_limit_rule_name(rule);
    if (rule == CP_LIMITS_CALIBRATED)
        snprintf(out, CP_WORD, "%s (%" PRId64 " replicates)", name, runs);
    else if (rule == CP_LIMITS_CONTROLS)
        snprintf(out, CP_WORD, "limits: %" PRId64 " %s", runs, name);
    else
        snprintf(out, CP_WORD, "%s", name);
    return out;
}

static size_t partly_blind(const cp_trial_row *rows, size_t count)
{
    size_t blind = 0;
    for (size_t i = 0; i < count; i++)
        blind += rows[i].outcome == CP_TRIAL_SAME && rows[i].blind > 0;
    return blind;
}

static bool said_before(const cp_trial_row *rows, size_t row)
{
    for (size_t i = 0; i < row; i++) {
        if (rows[i].outcome == CP_TRIAL_REFUSED && strcmp(rows[i].sentence, rows[row].sentence) == 0)
            return true;
    }
    return false;
}

static size_t times_said(const cp_trial_row *rows, size_t count, const char *sentence)
{
    size_t times = 0;
    for (size_t i = 0; i < count; i++)
        times += rows[i].outcome == CP_TRIAL_REFUSED && strcmp(rows[i].sentence, sentence) == 0;
    return times;
}

/* " (why: 2; why else: 1)", in order of appearance. */
static void say_refusals(FILE *page, const cp_trial_row *rows, size_t count)
{
    char word[CP_WORD];
    const char *before = " (";
    for (size_t i = 0; i < count; i++) {
        if (rows[i].outcome != CP_TRIAL_REFUSED || said_before(rows, i))
            continue;
        fprintf(page, "%s%s: %zu", before, cp_word_clean(word, rows[i].sentence),
                times_said(rows, count, rows[i].sentence));
        before = "; ";
    }
    fprintf(page, ")");
}

char *cp_word_summary(const cp_trial_row *rows, size_t count)
{
    cp_trial_tally tally = cp_trials_tally(rows, count);
    char *text = NULL;
    size_t length = 0;
    FILE *page = open_memstream(&text, &length);
    cp_check(page, "no memory for a report");
    size_t blind = partly_blind(rows, count);
    fprintf(page, "%zu run%s: %zu same", tally.runs, tally.runs == 1 ? "" : "s", tally.of[CP_TRIAL_SAME]);
    if (blind > 0)
        fprintf(page, " (blind on some tensors: %zu)", blind);
    fprintf(page, ", %zu different", tally.of[CP_TRIAL_DIFFERENT]);
    static const cp_trial_outcome others[] = {CP_TRIAL_NOT_COMPARABLE, CP_TRIAL_ERROR, CP_TRIAL_REFUSED};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (tally.of[others[i]] > 0)
            fprintf(page, ", %zu %s", tally.of[others[i]], cp_trial_outcome_name(others[i]));
    }
    if (tally.of[CP_TRIAL_REFUSED] > 0)
        say_refusals(page, rows, count);
    cp_check(fclose(page) == 0, "no memory for a report");
    return text;
}
