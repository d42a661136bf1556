#include "harness/parallel/decisions.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "label_shift",
    "loss_count",
    "empty_shard",
    "backward_scale",
    "reported_loss",
    "grad_reduce",
    "position_ids",
    "document_ids",
    "padding_mask",
    "auto_pad",
    "window",
    "chunk",
    "softcap_order",
    "causal",
    "attention_scope",
    "alltoall_layout",
    "gqa_map",
    "gqa_grad",
    "sink",
    "sink_grad",
    "rank_data",
    "gather_backward",
    "merge",
    "accumulate_dtype",
    "ring_backward_kv",
    "ring_backward_stats",
    "dkv_return",
    "tied_embedding",
    "dump_order",
    "embeds_grad",
    "accumulation",
    "moe_statistics",
    "moe_scale",
    "grad_reduce_dtype",
    "layout_inverse",
};

enum { NAMES = sizeof names / sizeof *names };

static int number_of(const char *name)
{
    for (int i = 0; i < cp_decisions_count(); i++)
        if (strcmp(cp_decision_at(i)->name, name) == 0)
            return i;
    return -1;
}

static int value_of(const cp_decision *decision, const char *name)
{
    for (int value = 0; value < decision->count; value++)
        if (strcmp(decision->values[value].name, name) == 0)
            return value;
    return -1;
}

static void assert_reports(const char *reports)
{
    for (const char *at = reports; *at; at = strchr(at, '\n') + 1) {
        assert_int_equal(strncmp(at, "https://github.com/", strlen("https://github.com/")), 0);
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        assert_true(isdigit((unsigned char)end[-1]));
    }
}

static void the_list_is_whole(void **state)
{
    (void)state;
    assert_int_equal(cp_decisions_count(), NAMES);
    for (int i = 0; i < NAMES; i++)
        assert_true(number_of(names[i]) >= 0);
    for (int i = 0; i < cp_decisions_count(); i++) {
        const cp_decision *d = cp_decision_at(i);
        assert_true(d->count >= 2 && d->question[strlen(d->question) - 1] == '?');
        for (int value = 0; value < d->count; value++) {
            const cp_decision_value *v = &d->values[value];
            assert_non_null(v->name);
            assert_int_equal(value_of(d, v->name), value); /* no name twice */
            assert_true(strlen(v->formula) > 0);
            assert_int_equal(strlen(v->shows) > 0, value > 0);
            assert_reports(v->reports);
        }
        assert_int_equal(d->values[0].needs, CP_NEEDS_NOTHING);
    }
}

/* Every value is stored in a field of its own, and all zero is right. */
static void sets_one_field(void **state)
{
    (void)state;
    cp_decisions right = {0};
    for (int i = 0; i < cp_decisions_count(); i++) {
        const cp_decision *d = cp_decision_at(i);
        for (int value = 1; value < d->count; value++) {
            char text[128], described[CP_DECISIONS_TEXT];
            snprintf(text, sizeof text, "%s=%s", d->name, d->values[value].name);
            cp_decisions decisions = {0};
            assert_ok(cp_decisions_set(&decisions, text));
            assert_string_equal(cp_decisions_describe(&decisions, described), text);
            for (int other = 0; other < cp_decisions_count(); other++)
                assert_int_equal(cp_decision_get(&decisions, other), other == i ? value : 0);
            snprintf(text, sizeof text, "%s=%s", d->name, d->values[0].name);
            assert_ok(cp_decisions_set(&decisions, text));
            assert_memory_equal(&decisions, &right, sizeof right);
        }
    }
    cp_decisions some = {0};
    assert_ok(cp_decisions_set(&some, "loss_count=per_rank"));
    assert_int_equal(some.loss.loss_count, CP_LOSS_COUNT_PER_RANK);
    assert_ok(cp_decisions_set(&some, "gqa_map=modulo"));
    assert_int_equal(some.exchange.heads.gqa_map, CP_GQA_MAP_MODULO);
    assert_ok(cp_decisions_set(&some, "window=dropped"));
    assert_int_equal(some.masks.window, CP_WINDOW_DROPPED);
    char described[CP_DECISIONS_TEXT];
    assert_string_equal(cp_decisions_describe(&some, described),
                        "window=dropped gqa_map=modulo loss_count=per_rank");
    assert_string_equal(cp_decisions_describe(&right, described), "right");
}

static void lists_what_is_known(void **state)
{
    (void)state;
    cp_decisions decisions = {0};
    assert_status(cp_decisions_set(&decisions, "loss=per_rank"), CP_BAD_USAGE, "'loss': no such decision");
    assert_text_holds(cp_error(), "embeds_grad");
    assert_status(cp_decisions_set(&decisions, "loss_count=rank"), CP_BAD_USAGE, "whole_batch, per_rank, ");
    assert_status(cp_decisions_set(&decisions, "loss_count"), CP_BAD_USAGE, "loss_count is one of");
    assert_status(cp_decisions_set(&decisions, "loss_count="), CP_BAD_USAGE, "loss_count is one of");
    assert_status(cp_decisions_set(&decisions, ""), CP_BAD_USAGE, "no such decision");
}

static void refuses_what_means_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool alone, ranks; /* allowed with local on 1, with ulysses on 2 */
    } cases[] = {
        {"window=plus_one", true, true},      {"label_shift=twice", true, true},
        {"loss_count=per_rank", false, true}, {"grad_reduce=mean", false, true},
        {"gqa_map=modulo", false, true},      {"alltoall_layout=rank_head", false, true},
        {"chunk=dropped", true, true},
    };
    const cp_setting alone = {.exchange.kind = CP_EXCHANGE_LOCAL, .P = 1, .D = 1, .M = 1};
    const cp_setting ranks = {.exchange.kind = CP_EXCHANGE_ULYSSES, .P = 2, .D = 1, .M = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_decisions decisions = {0};
        assert_ok(cp_decisions_set(&decisions, cases[i].text));
        assert_int_equal(cp_decisions_check(&decisions, &alone) == CP_OK, cases[i].alone);
        assert_int_equal(cp_decisions_check(&decisions, &ranks) == CP_OK, cases[i].ranks);
    }
    cp_decisions decisions = {0};
    assert_ok(cp_decisions_set(&decisions, "gqa_map=modulo"));
    const cp_setting ring = {.exchange = {CP_EXCHANGE_USP, 1, 2, false}, .P = 2, .D = 1, .M = 1};
    const cp_setting mesh = {.exchange = {CP_EXCHANGE_USP, 2, 2, false}, .P = 4, .D = 1, .M = 1};
    assert_status(cp_decisions_check(&decisions, &ring), CP_REFUSED, "(ulysses, usp)");
    assert_ok(cp_decisions_check(&decisions, &mesh));
    assert_status(cp_decisions_check(&decisions, &alone), CP_REFUSED,
                  "gqa_map=modulo needs more than one rank to share the heads (ulysses, usp)");
}

static void refuses_what_means_nothing_under_an_exchange(void **state)
{
    (void)state;
    static const struct {
        const char *text, *needs;
        bool allgather, ring, usp; /* allowed on 2 ranks, which under usp are a ring */
    } cases[] = {
        {"merge=average", "more than one rank on a ring, under ring or usp", false, true, true},
        {"dkv_return=dropped", "more than one rank on a ring, under ring or usp", false, true, true},
        {"causal=full_diagonal", "the ring exchange on more than one rank", false, true, false},
        {"attention_scope=first_only", "the ring exchange on more than one rank", false, true, false},
        {"gather_backward=slice", "the allgather exchange on more than one rank", true, false, false},
        {"causal=local_bottom_right", "the allgather exchange on more than one rank", true, false, false},
    };
    cp_setting settings[] = {{.exchange.kind = CP_EXCHANGE_ALLGATHER},
                             {.exchange.kind = CP_EXCHANGE_RING},
                             {.exchange = {CP_EXCHANGE_USP, 1, 2, false}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_decisions decisions = {0};
        assert_ok(cp_decisions_set(&decisions, cases[i].text));
        const bool allowed[] = {cases[i].allgather, cases[i].ring, cases[i].usp};
        for (int s = 0; s < 3; s++) {
            settings[s].P = 2;
            settings[s].D = settings[s].M = 1;
            if (allowed[s])
                assert_ok(cp_decisions_check(&decisions, &settings[s]));
            else
                assert_status(cp_decisions_check(&decisions, &settings[s]), CP_REFUSED, cases[i].needs);
        }
    }
}

static void refuses_what_means_nothing_under_a_layout(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool allowed[CP_LAYOUT_KINDS]; /* contiguous, zigzag, striped, uneven, per_document */
    } cases[] = {
        {"label_shift=shard", {true, true, true, true, true}},
        {"position_ids=arange", {false, true, true, false, true}},
        {"layout_inverse=none", {false, true, true, false, true}},
        {"layout_inverse=again", {false, true, true, false, true}},
        {"layout_inverse=contiguous_mask", {false, true, true, false, true}},
        {"auto_pad=label_0", {true, true, true, false, true}},
        {"auto_pad=counted", {true, true, true, false, true}},
        {"auto_pad=truncate", {true, true, true, false, true}},
        {"auto_pad=per_shard", {true, true, false, false, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++) {
            cp_decisions decisions = {0};
            assert_ok(cp_decisions_set(&decisions, cases[i].text));
            cp_setting setting = {.exchange.kind = CP_EXCHANGE_ULYSSES,
                                  .layout.kind = (cp_layout_kind)kind,
                                  .P = 2,
                                  .D = 1,
                                  .M = 1};
            assert_int_equal(cp_decisions_check(&decisions, &setting) == CP_OK, cases[i].allowed[kind]);
            setting.P = 1;
            setting.exchange.kind = CP_EXCHANGE_LOCAL;
            assert_int_equal(cp_decisions_check(&decisions, &setting), CP_REFUSED);
        }
}

static void equivalents_name_values(void **state)
{
    (void)state;
    assert_true(cp_equivalents_count() > 0);
    for (int i = 0; i < cp_equivalents_count(); i++) {
        const cp_equivalent *e = cp_equivalent_at(i);
        int decision = number_of(e->decision);
        assert_true(decision >= 0);
        assert_true(value_of(cp_decision_at(decision), e->value) > 0);
        assert_true(strlen(e->setting) > 0 && strlen(e->reason) > 0);
    }
}

int run_decisions_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_whole),
        cmocka_unit_test(sets_one_field),
        cmocka_unit_test(lists_what_is_known),
        cmocka_unit_test(refuses_what_means_nothing),
        cmocka_unit_test(refuses_what_means_nothing_under_a_layout),
        cmocka_unit_test(refuses_what_means_nothing_under_an_exchange),
        cmocka_unit_test(equivalents_name_values),
    };
    return cmocka_run_group_tests_name("decisions", tests, NULL, NULL);
}
