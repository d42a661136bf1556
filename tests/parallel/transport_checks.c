#include "base/rng.h"
#include "tests/parallel/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const test_verdict good = {0};

/* ---- messages whose every byte tells where it comes from --------------------------------------------------------- */

static int64_t word(int from, int to, int64_t n)
{
    return (int64_t)cp_rng_bits((cp_rng){.key = (uint64_t)(from * 1000 + to + 1001)}, (uint64_t)n);
}

/* How many words go from one rank to another in ragged messages: none, often. */
static int64_t ragged(int from, int to)
{
    return (from * 7 + to * 3) % 5;
}

typedef struct mail {
    int64_t *words;
    size_t *bytes; /* [P] */
    int64_t count;
} mail;

static mail open_mail(int P)
{
    return (mail){.bytes = calloc((size_t)P, sizeof(size_t))};
}

static void close_mail(mail m)
{
    free(m.words);
    free(m.bytes);
}

static void grow(mail *m, int64_t count)
{
    int64_t *words = realloc(m->words, (size_t)(m->count + count + 1) * sizeof *words);
    cp_check(words, "no memory");
    m->words = words;
    memset(words + m->count, 0, (size_t)(count + 1) * sizeof *words);
}

static void write_piece(mail *m, int peer, int from, int to, int64_t count)
{
    grow(m, count);
    for (int64_t n = 0; n < count; n++)
        m->words[m->count++] = word(from, to, n);
    m->bytes[peer] = (size_t)count * sizeof(int64_t);
}

static void expect_piece(mail *m, int peer, int64_t count)
{
    grow(m, count);
    m->count += count;
    m->bytes[peer] = (size_t)count * sizeof(int64_t);
}

static test_verdict check_words(const int64_t *words, int from, int to, int64_t count, const char *what)
{
    for (int64_t n = 0; n < count; n++)
        if (words[n] != word(from, to, n))
            return test_failure("%s: word %" PRId64 " from rank %d is %" PRId64 ", expected %" PRId64, what,
                                n, from, words[n], word(from, to, n));
    return good;
}

typedef int64_t message_size(int from, int to, int P);

static int64_t ragged_size(int from, int to, int P)
{
    (void)P;
    return ragged(from, to);
}

static int64_t no_size(int from, int to, int P)
{
    (void)from;
    (void)to;
    (void)P;
    return 0;
}

/* Several chunks each, and not a multiple of one, with the chunk that the MPI tests set. */
static int64_t big_size(int from, int to, int P)
{
    return (INT64_C(1) << 20) / (P * P) + 3 * from + to;
}

static int64_t only_to_last(int from, int to, int P)
{
    (void)from;
    return to == P - 1 ? 5 : 0;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static test_verdict exchange_all(cp_comm *comm, message_size *size, const char *what)
{
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    mail out = open_mail(P), in = open_mail(P);
    for (int peer = 0; peer < P; peer++) {
        write_piece(&out, peer, rank, peer, size(rank, peer, P));
        expect_piece(&in, peer, size(peer, rank, P));
    }
    cp_comm_alltoall(comm, in.words, in.bytes, out.words, out.bytes);
    test_verdict verdict = good;
    const int64_t *at = in.words;
    for (int peer = 0; peer < P && !verdict.fails; peer++) {
        verdict = check_words(at, peer, rank, size(peer, rank, P), what);
        at += size(peer, rank, P);
    }
    close_mail(out);
    close_mail(in);
    return verdict;
}

static test_verdict alltoall_check(cp_comm *comm, uint64_t seed)
{
    static const struct {
        const char *name;
        message_size *size;
    } sizes[] = {
        {"ragged", ragged_size}, {"nothing", no_size}, {"big", big_size}, {"one receiver", only_to_last}};
    (void)seed;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_verdict verdict = exchange_all(comm, sizes[i].size, sizes[i].name);
        if (verdict.fails)
            return verdict;
    }
    return good;
}

static test_verdict gather_to(cp_comm *comm, bool everywhere)
{
    enum { ANYBODY = 17 };
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    mail out = open_mail(P), in = open_mail(P);
    write_piece(&out, 0, rank, ANYBODY, ragged(rank, 1));
    for (int peer = 0; peer < P; peer++)
        expect_piece(&in, peer, ragged(peer, 1));
    test_verdict verdict = good;
    bool receives = everywhere || rank == 0;
    if (everywhere)
        cp_comm_allgather(comm, in.words, in.bytes, out.words, out.bytes[0]);
    else
        cp_comm_gather(comm, receives ? in.words : NULL, receives ? in.bytes : NULL, out.words, out.bytes[0]);
    const int64_t *at = in.words;
    for (int peer = 0; receives && peer < P && !verdict.fails; peer++) {
        verdict = check_words(at, peer, ANYBODY, ragged(peer, 1), everywhere ? "allgather" : "gather");
        at += ragged(peer, 1);
    }
    close_mail(out);
    close_mail(in);
    return verdict;
}

static test_verdict allgather_check(cp_comm *comm, uint64_t seed)
{
    (void)seed;
    return gather_to(comm, true);
}

static test_verdict gather_check(cp_comm *comm, uint64_t seed)
{
    (void)seed;
    return gather_to(comm, false);
}

/* `step` ranks up or down; `around`: the ends are neighbours. */
static test_verdict shift_by(cp_comm *comm, int step, bool around)
{
    enum { WORDS = 3 };
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    int to = rank + step, from = rank - step;
    if (around) {
        to = ((to % P) + P) % P;
        from = ((from % P) + P) % P;
    }
    to = to < 0 || to >= P ? -1 : to;
    from = from < 0 || from >= P ? -1 : from;
    int64_t out[WORDS], in[WORDS] = {0};
    for (int n = 0; n < WORDS; n++)
        out[n] = word(rank, to, n);
    cp_comm_shift(comm, to, out, sizeof out, from, in, sizeof in);
    if (from >= 0)
        return check_words(in, from, rank, WORDS, "shift");
    return in[0] == 0 ? good : test_failure("shift: something came from nobody");
}

static test_verdict shift_check(cp_comm *comm, uint64_t seed)
{
    (void)seed;
    for (int step = -2; step <= 2; step++)
        for (int around = 0; around < 2; around++) {
            test_verdict verdict = shift_by(comm, step, around);
            if (verdict.fails)
                return verdict;
        }
    return good;
}

static cp_status nobody_fails(int rank, int P)
{
    (void)rank;
    (void)P;
    return CP_OK;
}

static cp_status last_fails(int rank, int P)
{
    return rank == P - 1 ? CP_BAD_INPUT : CP_OK;
}

static cp_status last_fails_worst(int rank, int P)
{
    return rank == P - 1 ? CP_INTERNAL : CP_REFUSED;
}

static cp_status all_fail(int rank, int P)
{
    (void)rank;
    (void)P;
    return CP_BAD_USAGE;
}

static test_verdict agree_check(cp_comm *comm, uint64_t seed)
{
    (void)seed;
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    const struct {
        cp_status (*status)(int rank, int P);
        cp_status worst;
        int speaker;
    } cases[] = {{nobody_fails, CP_OK, 0},
                 {last_fails, CP_BAD_INPUT, P - 1},
                 {last_fails_worst, CP_INTERNAL, P - 1},
                 {all_fail, CP_BAD_USAGE, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[TEST_TEXT];
        cp_status mine = cases[i].status(rank, P);
        if (mine != CP_OK)
            cp_fail(mine, "file-%d: case %zu", rank, i);
        cp_status agreed = cp_comm_agree(comm, mine);
        if (agreed != cases[i].worst)
            return test_failure("agree, case %zu: %d, expected %d", i, (int)agreed, (int)cases[i].worst);
        snprintf(expected, sizeof expected, "file-%d: case %zu", cases[i].speaker, i);
        if (agreed != CP_OK && strcmp(cp_error(), expected) != 0)
            return test_failure("agree, case %zu: \"%s\", expected \"%s\"", i, cp_error(), expected);
    }
    return good;
}

/* Groups of groups: thirds, and in each of them odd and even ranks; every one of them works while the others do. */
static test_verdict split_check(cp_comm *comm, uint64_t seed)
{
    int rank = cp_comm_rank(comm), P = cp_comm_size(comm);
    int thirds = P / 3 + (rank % 3 < P % 3), number = rank / 3;
    cp_comm *third = cp_comm_split(comm, rank % 3 - 1, number, thirds);
    test_verdict verdict = good;
    if (cp_comm_size(third) != thirds || cp_comm_rank(third) != number)
        verdict = test_failure("rank %d of %d became rank %d of %d", rank, P, cp_comm_rank(third),
                               cp_comm_size(third));
    cp_comm *part = cp_comm_split(third, number % 2, number / 2, thirds / 2 + (number % 2 < thirds % 2));
    if (!verdict.fails)
        verdict = exchange_all(part, ragged_size, "in a group of a group");
    if (!verdict.fails)
        verdict = exchange_all(third, ragged_size, "in a group");
    if (!verdict.fails)
        verdict = shift_check(part, seed);
    cp_comm_close(part);
    if (!verdict.fails)
        verdict = agree_check(third, seed);
    cp_comm_close(third);
    if (!verdict.fails)
        verdict = exchange_all(comm, ragged_size, "after the groups");
    return verdict;
}

static void dawdle(uint64_t seed, int rank, int call)
{
    enum { LONGEST = 1000000 };
    cp_rng rng = cp_rng_named(seed, "delay");
    int64_t wait = cp_rng_below(rng, (uint64_t)(rank * 1000 + call), LONGEST);
    nanosleep(&(struct timespec){.tv_nsec = wait}, NULL);
}

/* Ranks that are late, each time others: nobody reads what is not there yet or overwrites what is still read. */
static test_verdict delay_check(cp_comm *comm, uint64_t seed)
{
    enum { CALLS = 24 };
    for (int call = 0; call < CALLS; call++) {
        dawdle(seed, cp_comm_rank(comm), call);
        test_verdict verdict = call % 3 == 0   ? exchange_all(comm, ragged_size, "late")
                               : call % 3 == 1 ? gather_to(comm, call % 2 == 0)
                                               : shift_by(comm, 1, true);
        if (verdict.fails)
            return verdict;
        if (call % 5 == 0)
            cp_comm_barrier(comm);
    }
    return good;
}

const transport_check_row transport_checks[] = {
    {"alltoall", alltoall_check}, {"allgather", allgather_check}, {"gather", gather_check},
    {"shift", shift_check},       {"agree", agree_check},         {"split", split_check},
    {"delays", delay_check},
};
const int transport_check_count = (int)(sizeof transport_checks / sizeof *transport_checks);
