/* Context-parallel attention of its own, which cpeq judges: a ring over MPI with an online softmax, forward and backward.
 *
 *   mpirun -n 3 mpi_c fixture.h5 dumps [--broken]
 *   cpeq diff fixture.h5 dumps
 *
 * The fixture is of kind "attention". Each rank holds a stretch of every row, keys and values go around, and in the
 * backward pass their gradients go with them, until they are home. With --broken they stop one rank too early. */
#include <cpeq.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    cpeq_fixture *fixture;
    int rank, size;
    int64_t B, T, H, K, D;
    double scale;
    int64_t window, causal;
    uint8_t *real;      /* [B,T]: 1 = no padding */
    int64_t *documents; /* [B,T] */
} problem;

/* Ranks hold stretches that are as long as each other, or one longer. */
static int64_t begin_of(const problem *p, int rank)
{
    return p->T * rank / p->size;
}

static int64_t length_of(const problem *p, int rank)
{
    return begin_of(p, rank + 1) - begin_of(p, rank);
}

static void stop(const char *sentence)
{
    fprintf(stderr, "mpi_c: %s\n", sentence);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static double *numbers(int64_t count)
{
    double *memory = calloc((size_t)count + 1, sizeof *memory);
    if (!memory)
        stop("out of memory");
    return memory;
}

/* ---- the fixture ------------------------------------------------------------------------------------------------- */

static void check(const problem *p, cpeq_status status)
{
    if (status != CPEQ_OK)
        stop(cpeq_fixture_error(p->fixture));
}

static void refuse(const problem *p, const char *name, bool array)
{
    int found = 0;
    double value = 0;
    check(p, array ? cpeq_fixture_has(p->fixture, name, &found)
                   : cpeq_fixture_real(p->fixture, "/", name, &value, &found));
    if (found)
        stop("this example knows neither chunks nor soft-caps nor sinks");
}

static void open_problem(problem *p, const char *path)
{
    int found;
    cpeq_array q, k;
    check(p, cpeq_fixture_open(&p->fixture, path));
    check(p, cpeq_fixture_describe(p->fixture, "batch/q", &q));
    check(p, cpeq_fixture_describe(p->fixture, "batch/k", &k));
    p->B = q.extent[0], p->T = q.extent[1], p->H = q.extent[2], p->D = q.extent[3];
    p->K = k.extent[2];
    p->scale = 1 / sqrt((double)p->D);
    p->causal = 1;
    check(p, cpeq_fixture_real(p->fixture, "/", "scale", &p->scale, &found));
    check(p, cpeq_fixture_integer(p->fixture, "/", "causal", &p->causal, &found));
    check(p, cpeq_fixture_integer(p->fixture, "/", "window", &p->window, &found));
    refuse(p, "chunk", false);
    refuse(p, "softcap", false);
    refuse(p, "batch/sink", true);

    size_t tokens = (size_t)(p->B * p->T);
    p->real = malloc(tokens);
    p->documents = calloc(tokens, sizeof *p->documents);
    if (!p->real || !p->documents)
        stop("out of memory");
    memset(p->real, 1, tokens);
    check(p, cpeq_fixture_has(p->fixture, "batch/attention_mask", &found));
    if (found)
        check(p, cpeq_fixture_read(p->fixture, "batch/attention_mask", CPEQ_UINT8, NULL, NULL, p->real));
    check(p, cpeq_fixture_has(p->fixture, "batch/document_ids", &found));
    if (found)
        check(p, cpeq_fixture_read(p->fixture, "batch/document_ids", CPEQ_INT64, NULL, NULL, p->documents));
}

/* This rank's stretch of an input, [B,S,heads,D]; the memory has room for any rank's. */
static double *read_stretch(const problem *p, const char *name, int64_t heads)
{
    int64_t offset[] = {0, begin_of(p, p->rank), 0, 0};
    int64_t count[] = {p->B, length_of(p, p->rank), heads, p->D};
    double *data = numbers(p->B * (p->T / p->size + 1) * heads * p->D);
    check(p, cpeq_fixture_read(p->fixture, name, CPEQ_FLOAT64, offset, count, data));
    return data;
}

static bool sees(const problem *p, int64_t b, int64_t query, int64_t key)
{
    const uint8_t *real = p->real + b * p->T;
    const int64_t *documents = p->documents + b * p->T;
    return real[query] && real[key] && documents[query] == documents[key] && (!p->causal || key <= query) &&
           (p->window == 0 || query - key < p->window);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* One query head against one key: places of this rank's query and of the visiting key. */
typedef struct meeting {
    int64_t query, key; /* element of q, o, dq, dout; of k, v, dk, dv */
    int64_t row;        /* of lse */
    double score;
} meeting;

typedef void meet(void *state, const meeting *m);

/* Every visible pair of this rank's queries and the keys `k` of rank `owner`. */
static void for_each(const problem *p, const double *q, const double *k, int owner, meet *action, void *state)
{
    int64_t S = length_of(p, p->rank), N = length_of(p, owner);
    for (int64_t i = 0; i < p->B * S * p->H; i++) {
        int64_t b = i / p->H / S, s = i / p->H % S, head = i % p->H * p->K / p->H;
        for (int64_t n = 0; n < N; n++) {
            if (!sees(p, b, begin_of(p, p->rank) + s, begin_of(p, owner) + n))
                continue;
            meeting m = {.row = i, .query = i * p->D, .key = ((b * N + n) * p->K + head) * p->D};
            for (int64_t d = 0; d < p->D; d++)
                m.score += p->scale * q[m.query + d] * k[m.key + d];
            action(state, &m);
        }
    }
}

/* What all passes share; `visiting` is K, V and, backward, their gradients, one after the other. */
typedef struct tensors {
    const problem *p;
    double *q, *dout, *out, *lse, *sum, *dq, *delta;
    double *k, *v, *dk, *dv; /* of the rank that is visited */
} tensors;

/* Online softmax: lse is the largest score so far until the end, out and sum are in units of exp(that). */
static void add_forward(void *state, const meeting *m)
{
    tensors *t = state;
    double *largest = &t->lse[m->row], *sum = &t->sum[m->row];
    if (*sum == 0 || m->score > *largest) {
        double shrink = *sum == 0 ? 0 : exp(*largest - m->score);
        *sum *= shrink;
        for (int64_t d = 0; d < t->p->D; d++)
            t->out[m->query + d] *= shrink;
        *largest = m->score;
    }
    double weight = exp(m->score - *largest);
    *sum += weight;
    for (int64_t d = 0; d < t->p->D; d++)
        t->out[m->query + d] += weight * t->v[m->key + d];
}

static void add_backward(void *state, const meeting *m)
{
    tensors *t = state;
    double probability = exp(m->score - t->lse[m->row]), slope = -t->delta[m->row];
    for (int64_t d = 0; d < t->p->D; d++)
        slope += t->dout[m->query + d] * t->v[m->key + d];
    for (int64_t d = 0; d < t->p->D; d++) {
        t->dq[m->query + d] += t->p->scale * probability * slope * t->k[m->key + d];
        t->dk[m->key + d] += t->p->scale * probability * slope * t->q[m->query + d];
        t->dv[m->key + d] += probability * t->dout[m->query + d];
    }
}

static void pass_on(const problem *p, double *visiting, int64_t count)
{
    int next = (p->rank + 1) % p->size, last = (p->rank + p->size - 1) % p->size;
    MPI_Sendrecv_replace(visiting, (int)count, MPI_DOUBLE, next, 0, last, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
}

/* All ranks' keys come by, this rank's own first. */
static void go_around(tensors *t, meet *action, int tensors_on_the_way, bool broken)
{
    const problem *p = t->p;
    double *visiting[] = {t->k, t->v, t->dk, t->dv};
    int64_t room = p->B * (p->T / p->size + 1) * p->K * p->D;
    for (int step = 0; step < p->size; step++) {
        for_each(p, t->q, t->k, (p->rank + p->size - step) % p->size, action, t);
        bool home = step == p->size - 1;
        for (int i = 0; i < tensors_on_the_way && !(home && broken); i++)
            pass_on(p, visiting[i], room);
    }
}

static void attend(tensors *t, bool broken)
{
    const problem *p = t->p;
    int64_t S = length_of(p, p->rank);
    go_around(t, add_forward, 2, false);
    for (int64_t i = 0; i < p->B * S * p->H; i++) {
        double sum = t->sum[i] > 0 ? t->sum[i] : 1; /* padding sees nothing */
        t->lse[i] += log(sum);
        for (int64_t d = i * p->D; d < (i + 1) * p->D; d++) {
            t->out[d] /= sum;
            t->delta[i] += t->out[d] * t->dout[d];
        }
    }
    go_around(t, add_backward, 4, broken);
}

/* ---- the dump ---------------------------------------------------------------------------------------------------- */

static void write_dump(const tensors *t, const char *folder)
{
    const problem *p = t->p;
    int64_t S = length_of(p, p->rank);
    int64_t queries[] = {p->B, S, p->H, p->D}, keys[] = {p->B, S, p->K, p->D};
    int64_t *index = malloc((size_t)(S + 1) * sizeof *index);
    for (int64_t s = 0; index && s < S; s++)
        index[s] = begin_of(p, p->rank) + s;
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%04d.h5", folder, p->rank);
    cpeq_dump *dump;
    cpeq_dump_create(&dump, path, "attention"); /* a dump that failed stays failed: one check is enough */
    cpeq_dump_set_text(dump, "fixture_id", cpeq_fixture_id(p->fixture));
    cpeq_dump_set_text(dump, "implementation", "examples/mpi.c");
    cpeq_dump_set_text(dump, "exchange", "ring");
    cpeq_dump_set_text(dump, "layout", "contiguous");
    cpeq_dump_set_text(dump, "compute_dtype", "float64");
    cpeq_dump_set_integer(dump, "cp_size", p->size);
    cpeq_dump_set_integer(dump, "cp_rank", p->rank);
    cpeq_dump_write(dump, "token_index", CPEQ_INT64, 1, &S, NULL, NULL, index);
    cpeq_dump_write(dump, "out", CPEQ_FLOAT64, 4, queries, NULL, NULL, t->out);
    cpeq_dump_write(dump, "lse", CPEQ_FLOAT64, 3, queries, NULL, NULL, t->lse);
    cpeq_dump_write(dump, "dq", CPEQ_FLOAT64, 4, queries, NULL, NULL, t->dq);
    cpeq_dump_write(dump, "dk", CPEQ_FLOAT64, 4, keys, NULL, NULL, t->dk);
    cpeq_dump_write(dump, "dv", CPEQ_FLOAT64, 4, keys, NULL, NULL, t->dv);
    if (cpeq_dump_finish(dump) != CPEQ_OK)
        stop(cpeq_dump_error(dump));
    cpeq_dump_close(dump);
    free(index);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    problem p = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.size);
    bool broken = argc == 4 && strcmp(argv[3], "--broken") == 0;
    if (argc != 3 && !broken)
        stop("expected a fixture and a folder");
    open_problem(&p, argv[1]);

    int64_t most = p.B * (p.T / p.size + 1), queries = most * p.H * p.D, keys = most * p.K * p.D;
    tensors t = {.p = &p,
                 .q = read_stretch(&p, "batch/q", p.H),
                 .k = read_stretch(&p, "batch/k", p.K),
                 .v = read_stretch(&p, "batch/v", p.K),
                 .dout = read_stretch(&p, "batch/dout", p.H),
                 .out = numbers(queries),
                 .lse = numbers(most * p.H),
                 .sum = numbers(most * p.H),
                 .delta = numbers(most * p.H),
                 .dq = numbers(queries),
                 .dk = numbers(keys),
                 .dv = numbers(keys)};
    attend(&t, broken);
    write_dump(&t, argv[2]);

    double *all[] = {t.q, t.k, t.v, t.dout, t.out, t.lse, t.sum, t.delta, t.dq, t.dk, t.dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(p.real);
    free(p.documents);
    cpeq_fixture_close(p.fixture);
    MPI_Finalize();
    return 0;
}
