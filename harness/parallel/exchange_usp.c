/* USP: P = U·R ranks, Ulysses within groups of U, and a ring over the R groups as its inner mixer. After the first
 * all-to-all a rank holds its share of heads of all its group's tokens; the ring passes the keys of these heads on. */
#include "harness/parallel/exchange_kinds.h"
#include "harness/parallel/mesh.h"

cp_mixer *cp_exchange_usp(const cp_exchange_setup *setup)
{
    const cp_mesh *mesh = setup->mesh;
    cp_check(mesh && mesh->ulysses && mesh->ring && mesh->cp == setup->comm, "usp without its mesh");
    cp_layout *ulysses = cp_arena_take(setup->arena, sizeof *ulysses);
    cp_layout *ring = cp_arena_take(setup->arena, sizeof *ring);
    cp_mesh_layouts(ulysses, ring, setup->layout, &mesh->spec, cp_comm_rank(setup->comm), setup->arena);
    cp_exchange_setup inner = *setup;
    inner.comm = mesh->ring;
    inner.layout = ring;
    return cp_ulysses_around(setup, mesh->ulysses, ulysses, cp_exchange_ring(&inner));
}
