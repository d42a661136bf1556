#include "base/tokens/batch.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

enum { B = 2, T = 6, C = 3, PLACES = B * T, VOCABULARY = 37 };

/* A batch of which every array stands ready; `batch` points to those that are given. */
typedef struct sample {
    cp_batch batch;
    int64_t ids[PLACES], positions[PLACES], documents[PLACES], labels[PLACES];
    uint8_t mask[PLACES];
    double embeds[PLACES * C];
} sample;

/* Row 0 is full, row 1 has two paddings on the left; each row is one document. */
static void make_sample(sample *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < PLACES; i++) {
        bool real = i != T && i != T + 1;
        s->ids[i] = i % VOCABULARY;
        s->positions[i] = real ? i % T - (i >= T ? 2 : 0) : 1;
        s->documents[i] = real ? 4 : -1;
        s->mask[i] = real;
        s->labels[i] = i % T == 0 || i == T + 1 || i == T + 2 ? CP_IGNORED : i;
    }
    s->batch =
        (cp_batch){.B = B, .T = T, .input_ids = s->ids, .attention_mask = s->mask, .labels = s->labels};
}

/* ---- what is refused: one row of the table a sentence ------------------------------------------------------------- */

static void no_rows(sample *s)
{
    s->batch.B = 0;
}
static void no_columns(sample *s)
{
    s->batch.T = 0;
}
static void no_ids(sample *s)
{
    s->batch.input_ids = NULL;
}
static void both_inputs(sample *s)
{
    s->batch.inputs_embeds = s->embeds;
}
static void no_labels(sample *s)
{
    s->batch.labels = NULL;
}
static void both_labels(sample *s)
{
    s->batch.shift_labels = s->labels;
}
static void negative_id(sample *s)
{
    s->ids[7] = -1;
}
static void large_id(sample *s)
{
    s->ids[11] = VOCABULARY;
}
static void large_label(sample *s)
{
    s->labels[3] = VOCABULARY;
}
static void other_negative_label(sample *s)
{
    s->labels[3] = -1;
}
static void mask_of_two(sample *s)
{
    s->mask[8] = 2;
}
static void zero_row(sample *s)
{
    memset(s->mask + T, 0, T);
}
static void negative_items(sample *s)
{
    s->batch.num_items_in_batch = -3;
}
static void nan_items(sample *s)
{
    s->batch.num_items_in_batch = NAN;
}
static void infinite_items(sample *s)
{
    s->batch.num_items_in_batch = INFINITY;
}

static void use_shift_labels(sample *s)
{
    s->batch.shift_labels = s->labels;
    s->batch.labels = NULL;
    for (int i = 0; i < PLACES; i++)
        s->labels[i] = s->mask[i] ? 5 : CP_IGNORED;
}

static void large_shift_label(sample *s)
{
    use_shift_labels(s);
    s->labels[5] = 40;
}

static const int64_t rows_of_groups[B] = {0, -1}, rows_of_steps[B] = {INT64_C(1) << 31, 0};

static void negative_group(sample *s)
{
    s->batch.data_parallel = rows_of_groups;
}

static void large_microbatch(sample *s)
{
    s->batch.microbatch = rows_of_steps;
}

static void use_embeds(sample *s)
{
    s->batch.input_ids = NULL;
    s->batch.inputs_embeds = s->embeds;
    s->batch.C = C;
}

static void infinite_embed(sample *s)
{
    use_embeds(s);
    s->embeds[(T + 3) * C + 2] = -INFINITY;
}

static void nan_embed(sample *s)
{
    use_embeds(s);
    s->embeds[0] = NAN;
}

static void use_documents(sample *s)
{
    s->batch.document_ids = s->documents;
    s->batch.attention_mask = NULL;
}

static void document_below(sample *s)
{
    use_documents(s);
    s->documents[2] = -2;
}

static void documents_all_padding(sample *s)
{
    use_documents(s);
    for (int i = 0; i < T; i++)
        s->documents[i] = -1;
}

static void documents_deny_mask(sample *s)
{
    use_documents(s);
    s->batch.attention_mask = s->mask;
    s->documents[T + 1] = 4;
}

static void mask_denies_documents(sample *s)
{
    use_documents(s);
    s->batch.attention_mask = s->mask;
    s->documents[3] = -1;
}

static void documents_decrease(sample *s)
{
    use_documents(s);
    s->documents[4] = 3;
}

static void document_comes_back(sample *s)
{
    use_documents(s);
    s->documents[3] = 5;
}

static void negative_position(sample *s)
{
    s->batch.position_ids = s->positions;
    s->positions[1] = -1;
}

static void huge_position(sample *s)
{
    s->batch.position_ids = s->positions;
    s->positions[5] = INT64_C(1) << 31;
}

static void jump_in_document(sample *s)
{
    use_documents(s);
    s->batch.position_ids = s->positions;
    s->positions[5] = 0;
}

static void restart_under_mask(sample *s)
{
    s->batch.position_ids = s->positions;
    for (int i = 3; i < T; i++)
        s->positions[i] = i - 3;
}

static void restart_under_full_mask(sample *s)
{
    restart_under_mask(s);
    memset(s->mask, 1, sizeof s->mask);
    s->labels[T + 1] = s->labels[T + 2] = 1;
    for (int i = 0; i < T; i++)
        s->positions[T + i] = i;
}

static void restart_behind_a_hole(sample *s)
{
    s->batch.position_ids = s->positions;
    s->mask[3] = 0;
    s->labels[3] = s->labels[4] = CP_IGNORED;
    s->positions[4] = 0;
    s->positions[5] = 1;
}

static void target_from_padding(sample *s)
{
    s->labels[T + 2] = 9;
}
static void target_is_padding(sample *s)
{
    s->labels[T + 1] = 9;
}

static void target_from_document_padding(sample *s)
{
    use_documents(s);
    s->labels[T + 2] = 9;
}

static void shifted_target_from_padding(sample *s)
{
    use_shift_labels(s);
    s->labels[T + 1] = 9;
}

static void no_target(sample *s)
{
    for (int i = 0; i < PLACES; i++)
        s->labels[i] = i % T == 0 ? 9 : CP_IGNORED; /* a row's first label is nobody's target */
}

static void no_shifted_target(sample *s)
{
    use_shift_labels(s);
    for (int i = 0; i < PLACES; i++)
        s->labels[i] = CP_IGNORED;
}

typedef struct example {
    void (*spoil)(sample *s);
    cp_status code;
    const char *sentence;
} example;

static const example refusals[] = {
    {no_rows, CP_BAD_INPUT, "x.h5: /batch: [0,6] holds no token"},
    {no_columns, CP_BAD_INPUT, "x.h5: /batch: [2,0] holds no token"},
    {no_ids, CP_BAD_INPUT, "x.h5: /batch: neither input_ids nor inputs_embeds; one of them is expected"},
    {both_inputs, CP_BAD_INPUT, "x.h5: /batch: both input_ids and inputs_embeds; one of them is expected"},
    {no_labels, CP_BAD_INPUT, "x.h5: /batch: neither labels nor shift_labels; one of them is expected"},
    {both_labels, CP_BAD_INPUT, "x.h5: /batch: both labels and shift_labels; one of them is expected"},
    {negative_id, CP_BAD_INPUT, "x.h5: /batch/input_ids: row 1, token 1: -1 is outside [0,37)"},
    {large_id, CP_BAD_INPUT, "x.h5: /batch/input_ids: row 1, token 5: 37 is outside [0,37)"},
    {large_label, CP_BAD_INPUT, "x.h5: /batch/labels: row 0, token 3: 37 is outside [0,37)"},
    {other_negative_label, CP_BAD_INPUT, "x.h5: /batch/labels: row 0, token 3: -1 is outside [0,37)"},
    {large_shift_label, CP_BAD_INPUT, "x.h5: /batch/shift_labels: row 0, token 5: 40 is outside [0,37)"},
    {mask_of_two, CP_BAD_INPUT,
     "x.h5: /batch/attention_mask: row 1, token 2: 2; 0 (padding) or 1 (real) is expected"},
    {zero_row, CP_BAD_INPUT, "x.h5: /batch/attention_mask: row 1 is all padding"},
    {documents_all_padding, CP_BAD_INPUT, "x.h5: /batch/document_ids: row 0 is all padding"},
    {negative_group, CP_BAD_INPUT, "x.h5: /batch/data_parallel: row 1: -1 is outside [0,2147483648)"},
    {large_microbatch, CP_BAD_INPUT, "x.h5: /batch/microbatch: row 0: 2147483648 is outside [0,2147483648)"},
    {document_below, CP_BAD_INPUT, "x.h5: /batch/document_ids: row 0, token 2: -2 is outside [0,"},
    {documents_deny_mask, CP_BAD_INPUT,
     "x.h5: /batch/document_ids: row 1, token 1: 4, but attention_mask is 0 (padding is -1)"},
    {mask_denies_documents, CP_BAD_INPUT,
     "x.h5: /batch/document_ids: row 0, token 3: -1, but attention_mask is 1 (padding is -1)"},
    {documents_decrease, CP_BAD_INPUT, "x.h5: /batch/document_ids: row 0, token 4: ids decrease from 4 to 3"},
    {document_comes_back, CP_BAD_INPUT,
     "x.h5: /batch/document_ids: row 0, token 4: document 4 comes back after document 5"},
    {negative_position, CP_BAD_INPUT,
     "x.h5: /batch/position_ids: row 0, token 1: -1 is outside [0,2147483648)"},
    {huge_position, CP_BAD_INPUT,
     "x.h5: /batch/position_ids: row 0, token 5: 2147483648 is outside [0,2147483648)"},
    {jump_in_document, CP_BAD_INPUT,
     "x.h5: /batch/position_ids: row 0, token 5: positions jump from 4 to 0 inside document 4 of "
     "document_ids"},
    {nan_embed, CP_BAD_INPUT, "x.h5: /batch/inputs_embeds: row 0, token 0, channel 0: nan is not finite"},
    {infinite_embed, CP_BAD_INPUT,
     "x.h5: /batch/inputs_embeds: row 1, token 3, channel 2: -inf is not finite"},
    {negative_items, CP_BAD_INPUT, "x.h5: /batch/num_items_in_batch: -3 is not positive"},
    {nan_items, CP_BAD_INPUT, "x.h5: /batch/num_items_in_batch: nan is not positive"},
    {infinite_items, CP_BAD_INPUT, "x.h5: /batch/num_items_in_batch: inf is not finite"},
    {restart_under_mask, CP_REFUSED,
     "x.h5: /batch/position_ids: row 0, token 3: positions jump from 2 to 0 and there is an attention_mask"},
    {restart_under_full_mask, CP_REFUSED,
     "x.h5: /batch/position_ids: row 0, token 3: positions jump from 2 to 0"},
    {restart_behind_a_hole, CP_REFUSED,
     "x.h5: /batch/position_ids: row 0, token 4: positions jump from 2 to 0"},
    {target_from_padding, CP_REFUSED,
     "x.h5: /batch/labels: row 1, token 2: this target would be predicted from padding (token 1)"},
    {target_from_document_padding, CP_REFUSED,
     "x.h5: /batch/labels: row 1, token 2: this target would be predicted from padding (token 1)"},
    {target_is_padding, CP_REFUSED,
     "x.h5: /batch/labels: row 1, token 1: padding is a target; -100 is expected there"},
    {shifted_target_from_padding, CP_REFUSED,
     "x.h5: /batch/shift_labels: row 1, token 1: this target would be predicted from padding (token 1)"},
    {no_target, CP_REFUSED, "x.h5: /batch/labels: there is no target"},
    {no_shifted_target, CP_REFUSED, "x.h5: /batch/shift_labels: there is no target"},
};

static void each_fault_has_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        sample s;
        make_sample(&s);
        refusals[i].spoil(&s);
        print_message("%s\n", refusals[i].sentence);
        assert_status(cp_batch_check(&s.batch, VOCABULARY, "x.h5"), refusals[i].code, refusals[i].sentence);
        assert_memory_equal(cp_error(), "x.h5: ", 6);
    }
}

/* ---- what means something ---------------------------------------------------------------------------------------- */

static void as_it_is(sample *s)
{
    (void)s;
}
static void largest_id(sample *s)
{
    s->ids[0] = s->labels[1] = VOCABULARY - 1;
}
static void items(sample *s)
{
    s->batch.num_items_in_batch = 0.5;
}
static void no_mask(sample *s)
{
    s->batch.attention_mask = NULL;
}
static void label_of_first_padding(sample *s)
{
    s->labels[T] = 9;
}
static void positions_of_left_padding(sample *s)
{
    s->batch.position_ids = s->positions;
}

static void documents_and_mask(sample *s)
{
    use_documents(s);
    s->batch.attention_mask = s->mask;
    s->batch.position_ids = s->positions;
}

/* Two documents and a padding between; positions start anew. */
static void two_documents(sample *s)
{
    use_documents(s);
    s->batch.position_ids = s->positions;
    const int64_t documents[] = {0, 0, -1, 7, 7, 7}, positions[] = {0, 1, 0, 0, 1, 2};
    memcpy(s->documents, documents, sizeof documents);
    memcpy(s->positions, positions, sizeof positions);
    s->labels[2] = s->labels[3] = CP_IGNORED;
}

static void packed_positions(sample *s)
{
    no_mask(s);
    s->batch.position_ids = s->positions;
    for (int i = 0; i < PLACES; i++)
        s->positions[i] = i % 3;
}

static void hole_that_is_counted(sample *s)
{
    s->batch.position_ids = s->positions;
    s->mask[3] = 0;
    s->labels[3] = s->labels[4] = CP_IGNORED;
}

static void hole_that_is_not_counted(sample *s)
{
    hole_that_is_counted(s);
    s->positions[4] = 3;
    s->positions[5] = 4;
}

/* The last place of a row may know the token after it. */
static void shift_label_at_the_end(sample *s)
{
    use_shift_labels(s);
    memset(s->mask + 3, 0, 3);
    for (int i = 3; i < T; i++)
        s->labels[i] = CP_IGNORED;
}

static void what_means_something_passes(void **state)
{
    (void)state;
    void (*const changes[])(sample *) = {
        as_it_is,
        largest_id,
        items,
        no_mask,
        label_of_first_padding,
        use_embeds,
        use_shift_labels,
        use_documents,
        two_documents,
        positions_of_left_padding,
        packed_positions,
        documents_and_mask,
        hole_that_is_counted,
        hole_that_is_not_counted,
        shift_label_at_the_end,
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        sample s;
        make_sample(&s);
        changes[i](&s);
        assert_ok(cp_batch_check(&s.batch, VOCABULARY, "x.h5"));
    }
}

int batch_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_has_its_sentence),
        cmocka_unit_test(what_means_something_passes),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
