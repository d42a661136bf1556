/* Started by mpirun: every exchange, over layouts and forms, gives the bits that it gives over threads. */
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

#include <stdio.h>
#include <string.h>

static const cp_exchange_rules right = {0};

static const world_shape shapes[] = {
    {1, 4, 2, 2, 2, {7}, 0, 2},           {2, 4, 2, 2, 2, {4, 4}, 0, 1},
    {3, 12, 5, 5, 2, {3, 0, 3}, 3, 0},    {4, 24, 6, 6, 2, {2, 2, 2, 2}, 0, 3},
    {4, 12, 5, 3, 1, {1, 4, 0, 2}, 4, 0}, {4, 8, 1, 1, 2, {1, 0, 0, 1}, 0, 0},
};

/* U of usp, where it is one; 0 ranks: chosen. */
static const cp_exchange_spec exchanges[] = {
    {.kind = CP_EXCHANGE_ULYSSES},  {.kind = CP_EXCHANGE_ALLGATHER}, {.kind = CP_EXCHANGE_RING},
    {CP_EXCHANGE_USP, 2, 2, false}, {CP_EXCHANGE_USP, 2, 2, true},   {.kind = CP_EXCHANGE_USP},
};

static bool same_rows(const world *w, cp_tensor a, cp_tensor b, int rank)
{
    cp_arena arena = cp_arena_growing();
    cp_tensor x = world_cut(w, a, rank, &arena), y = world_cut(w, b, rank, &arena);
    bool same = memcmp(x.data, y.data, cp_tensor_bytes(x)) == 0;
    cp_arena_close(&arena);
    return same;
}

static bool same_results(const world *threads, const world *processes, int rank)
{
    const world_tensors *a = &threads->sharded, *b = &processes->sharded;
    cp_tensor x = cp_tensor_slice(threads->shares, 0, rank, 1),
              y = cp_tensor_slice(processes->shares, 0, rank, 1);
    return same_rows(threads, a->o, b->o, rank) && same_rows(threads, a->dq, b->dq, rank) &&
           same_rows(threads, a->dk, b->dk, rank) && same_rows(threads, a->dv, b->dv, rank) &&
           memcmp(x.data, y.data, cp_tensor_bytes(x)) == 0;
}

/* Whether this process has the same bits. */
static bool compare(const world_shape *shape, const world_kind *kind, const cp_exchange_spec *exchange,
                    cp_attention_form form)
{
    world threads, processes;
    world_open_kind(&threads, shape, kind, 1);
    world_open_kind(&processes, shape, kind, 1);
    threads.exchange = processes.exchange = *exchange;
    threads.form = processes.form = form;
    world_run_threads(&threads, &right);
    bool ran = cp_mpi_run(shape->P, world_body, &processes) == CP_OK;
    int rank = cp_mpi_rank();
    bool same = ran && (rank >= shape->P || same_results(&threads, &processes, rank));
    if (!same) {
        char text[CP_EXCHANGE_TEXT];
        fprintf(stderr, "%s, P %d, form %d, %s: rank %d has other bits over MPI than over threads\n",
                cp_exchange_text(exchange, text), shape->P, (int)form,
                kind->shuffled ? "shuffled" : "contiguous", rank);
    }
    world_free_ranks(&processes);
    world_close(&processes);
    world_close(&threads);
    return same;
}

int compare_exchanges_over_mpi(void)
{
    int failed = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t e = 0; e < sizeof exchanges / sizeof *exchanges; e++) {
            const world_shape *shape = &shapes[s];
            bool possible = cp_exchange_check(&exchanges[e], shape->P, shape->H, shape->K) == CP_OK;
            for (int n = 0; possible && shape->P <= cp_mpi_size() && n < 2 * CP_ATTENTION_FORMS; n++) {
                const world_kind kind = {.dtype = n < 2 ? CP_F64 : CP_F32, .sinks = true, .shuffled = n % 2};
                failed += !compare(shape, &kind, &exchanges[e], (cp_attention_form)(n / 2));
            }
        }
    return failed;
}
