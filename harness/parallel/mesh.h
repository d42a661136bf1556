/* The groups that a run's ranks form. Ranks of the world lie CP group after CP group: rank = d·P + r. Under usp, P = U·R,
 * the r-th rank of a CP group has two coordinates, r = ring·U + ulysses, or r = ulysses·R + ring where rings lie inside:
 * ranks of one ring coordinate exchange heads, ranks of one ulysses coordinate pass keys on. */
#ifndef CPEQ_HARNESS_PARALLEL_MESH_H
#define CPEQ_HARNESS_PARALLEL_MESH_H

#include "harness/parallel/exchange.h"

struct cp_mesh {
    cp_exchange_spec spec;   /* as it was opened with: settled */
    cp_comm *world;          /* borrowed */
    cp_comm *cp;             /* the P ranks that share rows; the world itself where it has no others */
    cp_comm *ulysses, *ring; /* this rank's subgroups of cp under usp, else NULL */
};

/* Opens the groups of this rank of `world`, a multiple of P ranks; `spec` as cp_exchange_settled gives it. Over a
 * measuring world they measure too. Collective over world. */
void cp_mesh_open(cp_mesh *mesh, cp_comm *world, int P, const cp_exchange_spec *spec);
void cp_mesh_close(cp_mesh *mesh);

/* Where a rank of a CP group stands; of no subgroup (spec->ulysses is 0): {0, rank}. */
typedef struct cp_mesh_place {
    int ulysses, ring;
} cp_mesh_place;

cp_mesh_place cp_mesh_place_of(const cp_exchange_spec *spec, int rank);
int cp_mesh_rank_at(const cp_exchange_spec *spec, cp_mesh_place place);

/* What a layout over the P ranks of a CP group is to the subgroups of `rank`:
 *   ulysses  over its U ranks: index[u][b,s] is the token's place among all tokens of the ulysses group, which stand in
 *            ascending global order
 *   ring     over the R ranks of its ring: the r-th one's tokens are all tokens of its ulysses group, in that order
 * Arrays in `arena`, which must not measure. */
void cp_mesh_layouts(cp_layout *ulysses, cp_layout *ring, const cp_layout *layout,
                     const cp_exchange_spec *spec, int rank, cp_arena *arena);

#endif
