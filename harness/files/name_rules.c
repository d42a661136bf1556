#include "harness/files/name_rules.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

enum { MOST_PATTERN = 256, MOST_PARENTHESES = 9 };

/* What a pattern may not hold is what makes matching take more time or memory than its length tells. */
static const char *refusal_of(const char *pattern)
{
    int open = 0;
    if (strlen(pattern) > MOST_PATTERN)
        return "is longer than 256 characters";
    for (const char *at = pattern; *at; at++) {
        if (*at == '\\') {
            if (!at[1] || (at[1] >= '0' && at[1] <= '9'))
                return "has a back-reference";
            at++;
            continue;
        }
        if (*at == '{')
            return "counts repetitions with {";
        open += *at == '(';
    }
    return open > MOST_PARENTHESES ? "has more than 9 groups" : NULL;
}

/* A digit has no escape of its own in POSIX patterns. */
static void spell_digits(char *out, const char *pattern)
{
    bool bracket = false;
    for (const char *at = pattern; *at; at++) {
        if (at[0] == '\\' && at[1] == 'd' && !bracket) {
            out = stpcpy(out, "[0-9]");
            at++;
            continue;
        }
        if (at[0] == '\\' && !bracket)
            *out++ = *at++;
        else if (*at == '[')
            bracket = true;
        else if (*at == ']')
            bracket = false;
        *out++ = *at;
    }
    *out = '\0';
}

static cp_status compile(cp_name_rule *rule, const char *pattern, const char *where)
{
    char spelled[5 * MOST_PATTERN + 8], whole[sizeof spelled + 8], reason[128];
    const char *refusal = refusal_of(pattern);
    if (refusal)
        return cp_fail(CP_INCOMPARABLE, "%s: theirs \"%.64s\" %s, which is not read", where, pattern,
                       refusal);
    spell_digits(spelled, pattern);
    snprintf(whole, sizeof whole, "^(%s)$", spelled);
    int failed = regcomp(&rule->theirs, whole, REG_EXTENDED);
    if (!failed)
        return CP_OK;
    regerror(failed, &rule->theirs, reason, sizeof reason);
    return cp_fail(CP_BAD_INPUT, "%s: theirs \"%.64s\": %s", where, pattern, reason);
}

const cp_name_rule *cp_name_rules_find(const cp_name_rules *rules, const char *name,
                                       regmatch_t groups[CP_MOST_GROUPS])
{
    for (size_t i = 0; i < rules->count; i++)
        if (regexec(&rules->rules[i].theirs, name, CP_MOST_GROUPS, groups, 0) == 0)
            return &rules->rules[i];
    return NULL;
}

bool cp_name_rule_fill(char out[CP_NAME_BYTES], const cp_name_rule *rule, size_t piece, const char *name,
                       const regmatch_t groups[CP_MOST_GROUPS])
{
    size_t used = 0;
    for (const char *at = rule->ours[piece]; *at; at++) {
        bool group = at[0] == '\\' && at[1] >= '1' && at[1] <= '9';
        const char *text = at;
        size_t length = 1;
        if (group) {
            const regmatch_t *found = &groups[1 + at[1] - '0'];
            text = found->rm_so >= 0 ? name + found->rm_so : "";
            length = found->rm_so >= 0 ? (size_t)(found->rm_eo - found->rm_so) : 0;
            at++;
        }
        if (used + length >= CP_NAME_BYTES)
            return false;
        memcpy(out + used, text, length);
        used += length;
    }
    out[used] = '\0';
    return true;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static cp_status expected(const char *where, const char *key, const char *what, const cp_json *found)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected %s, found %s", where, key, what,
                   found ? cp_json_kind_name(cp_json_kind_of(found)) : "nothing");
}

static bool is_kind(const cp_json *value, cp_json_kind kind)
{
    return value && cp_json_kind_of(value) == kind;
}

static bool is_plain(const char *text)
{
    return cp_text_plain(text, strlen(text));
}

static cp_status check_keys(const cp_json *object, const char *where, const char *known)
{
    void *at = NULL;
    const char *name;
    while (cp_json_next(object, &at, &name)) {
        if (!cp_lines_have(known, name))
            return cp_fail(CP_INCOMPARABLE, "%s: declares %.64s, which this version does not know", where,
                           is_plain(name) ? name : "a name that is no text");
    }
    return CP_OK;
}

static cp_status read_ours(cp_name_rule *rule, cp_pool *pool, const cp_json *ours, const char *where)
{
    bool one = is_kind(ours, CP_JSON_STRING);
    if (!one && !is_kind(ours, CP_JSON_ARRAY))
        return expected(where, "ours", "a list of names", ours);
    rule->pieces = one ? 1 : cp_json_size(ours);
    if (rule->pieces < 1 || rule->pieces > CP_MOST_PIECES)
        return cp_fail(CP_BAD_INPUT, "%s: ours: expected 1 to %d names, found %zu", where, CP_MOST_PIECES,
                       rule->pieces);
    for (size_t i = 0; i < rule->pieces; i++) {
        const cp_json *name = one ? ours : cp_json_element(ours, i);
        if (!is_kind(name, CP_JSON_STRING))
            return expected(where, "ours", "names", name);
        const char *text = cp_json_string(name);
        if (!*text || !is_plain(text))
            return cp_fail(CP_BAD_INPUT, "%s: ours: expected names, found what is none", where);
        CP_TRY(cp_pool_text(pool, &rule->ours[i], text));
    }
    return CP_OK;
}

static cp_status read_axis(cp_name_rule *rule, const cp_json *cut, const char *key, const char *where)
{
    const cp_json *axis = cp_json_member(cut, "axis");
    if (!is_kind(axis, CP_JSON_INTEGER) || cp_json_integer(axis) < 0 || cp_json_integer(axis) >= 8)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected an axis from 0 on", where, key);
    rule->cut = true;
    rule->axis = (int)cp_json_integer(axis);
    return CP_OK;
}

static cp_status read_size(int64_t *out, const cp_json *size, const char *key, const char *where)
{
    if (!is_kind(size, CP_JSON_INTEGER) || cp_json_integer(size) < 1)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected sizes above 0", where, key);
    *out = cp_json_integer(size);
    return CP_OK;
}

static cp_status read_split(cp_name_rule *rule, const cp_json *split, const char *where)
{
    if (!is_kind(split, CP_JSON_OBJECT))
        return expected(where, "split", "an object", split);
    CP_TRY(check_keys(split, where, "axis\nsizes\ninterleave\n"));
    CP_TRY(read_axis(rule, split, "split", where));
    const cp_json *sizes = cp_json_member(split, "sizes");
    if (!is_kind(sizes, CP_JSON_ARRAY) || cp_json_size(sizes) != rule->pieces)
        return cp_fail(CP_BAD_INPUT, "%s: split: expected as many sizes as names in ours, %zu", where,
                       rule->pieces);
    for (size_t i = 0; i < rule->pieces; i++)
        CP_TRY(read_size(&rule->sizes[i], cp_json_element(sizes, i), "split", where));
    const cp_json *interleave = cp_json_member(split, "interleave");
    if (!interleave)
        return CP_OK;
    if (!is_kind(interleave, CP_JSON_STRING))
        return expected(where, "interleave", "a word", interleave);
    const char *word = cp_json_string(interleave);
    rule->repeats = strcmp(word, "per_head") == 0 || strcmp(word, "per_kv_group") == 0;
    if (!rule->repeats && strcmp(word, "none") != 0)
        return cp_fail(CP_INCOMPARABLE, "%s: declares an interleave that this version does not know", where);
    return CP_OK;
}

static cp_status read_pad(cp_name_rule *rule, const cp_json *pad, const char *where)
{
    if (!is_kind(pad, CP_JSON_OBJECT))
        return expected(where, "pad", "an object", pad);
    CP_TRY(check_keys(pad, where, "axis\nsize\n"));
    if (rule->cut)
        return cp_fail(CP_INCOMPARABLE, "%s: declares split and pad of one tensor, which is not read", where);
    CP_TRY(read_axis(rule, pad, "pad", where));
    CP_TRY(read_size(&rule->sizes[0], cp_json_member(pad, "size"), "pad", where));
    rule->padded = true;
    return CP_OK;
}

static cp_status read_rule(cp_name_rule *rule, cp_pool *pool, const cp_json *entry, const char *where)
{
    if (!is_kind(entry, CP_JSON_OBJECT))
        return expected(where, "an entry", "an object", entry);
    CP_TRY(check_keys(entry, where, "theirs\nours\nsplit\ntranspose\npad\n"));
    const cp_json *theirs = cp_json_member(entry, "theirs"), *split = cp_json_member(entry, "split"),
                  *pad = cp_json_member(entry, "pad"), *transpose = cp_json_member(entry, "transpose");
    if (!is_kind(theirs, CP_JSON_STRING) || !is_plain(cp_json_string(theirs)))
        return expected(where, "theirs", "a name or a regular expression", theirs);
    CP_TRY(read_ours(rule, pool, cp_json_member(entry, "ours"), where));
    if (transpose && !is_kind(transpose, CP_JSON_BOOL))
        return expected(where, "transpose", "true or false", transpose);
    rule->transpose = transpose && cp_json_bool(transpose);
    if (split)
        CP_TRY(read_split(rule, split, where));
    if (pad)
        CP_TRY(read_pad(rule, pad, where));
    if (rule->pieces > 1 && !split)
        return cp_fail(CP_BAD_INPUT, "%s: ours: expected one name, or sizes in split, found %zu names", where,
                       rule->pieces);
    return compile(rule, cp_json_string(theirs), where);
}

static cp_status read_rules(cp_name_rules *rules, cp_pool *pool, const cp_json *list, const char *where)
{
    if (cp_json_kind_of(list) != CP_JSON_ARRAY)
        return cp_fail(CP_BAD_INPUT, "%s: expected a list, found %s", where,
                       cp_json_kind_name(cp_json_kind_of(list)));
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, cp_json_size(list) + 1, sizeof *rules->rules));
    rules->rules = memory;
    for (size_t i = 0; i < cp_json_size(list); i++) {
        CP_TRY(read_rule(&rules->rules[i], pool, cp_json_element(list, i), where));
        rules->count++;
    }
    return CP_OK;
}

cp_status cp_name_rules_read(cp_name_rules *rules, cp_pool *pool, const char *text, const char *where)
{
    cp_json *list;
    *rules = (cp_name_rules){0};
    CP_TRY(cp_json_parse(&list, text, strlen(text), where));
    cp_status status = read_rules(rules, pool, list, where);
    cp_json_close(list);
    return status;
}

void cp_name_rules_close(cp_name_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        regfree(&rules->rules[i].theirs);
    *rules = (cp_name_rules){0};
}
