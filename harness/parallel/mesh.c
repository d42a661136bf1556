#include "harness/parallel/mesh.h"

/* ---- coordinates ------------------------------------------------------------------------------------------------ */

cp_mesh_place cp_mesh_place_of(const cp_exchange_spec *spec, int rank)
{
    int U = spec->ulysses, R = spec->ring;
    if (U == 0)
        return (cp_mesh_place){.ring = rank};
    return spec->ring_inner ? (cp_mesh_place){rank / R, rank % R} : (cp_mesh_place){rank % U, rank / U};
}

int cp_mesh_rank_at(const cp_exchange_spec *spec, cp_mesh_place place)
{
    return spec->ring_inner ? place.ulysses * spec->ring + place.ring
                            : place.ring * spec->ulysses + place.ulysses;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

void cp_mesh_open(cp_mesh *mesh, cp_comm *world, int P, const cp_exchange_spec *spec)
{
    int rank = cp_comm_rank(world), size = cp_comm_size(world);
    cp_check(P >= 1 && size % P == 0, "groups of %d ranks in a world of %d", P, size);
    *mesh = (cp_mesh){.spec = *spec, .world = world, .cp = world};
    if (size > P)
        mesh->cp = cp_comm_split(world, rank / P, rank % P, P);
    int U = spec->ulysses, R = spec->ring;
    if (U == 0)
        return;
    cp_check(U * R == P, "a mesh of %d times %d ranks in a group of %d", U, R, P);
    cp_mesh_place place = cp_mesh_place_of(spec, rank % P);
    mesh->ulysses = cp_comm_split(mesh->cp, place.ring, place.ulysses, U);
    mesh->ring = cp_comm_split(mesh->cp, place.ulysses, place.ring, R);
}

void cp_mesh_close(cp_mesh *mesh)
{
    if (mesh->ring)
        cp_comm_close(mesh->ring);
    if (mesh->ulysses)
        cp_comm_close(mesh->ulysses);
    if (mesh->cp != mesh->world)
        cp_comm_close(mesh->cp);
    *mesh = (cp_mesh){0};
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

/* Over P ranks that hold `tokens` each; arrays without values. */
static void take_layout(cp_layout *layout, const cp_layout *like, int P, const int64_t *tokens, int64_t T,
                        cp_arena *arena)
{
    size_t B = (size_t)like->B, all = B * (size_t)T;
    *layout = *like;
    layout->P = P;
    layout->T = T;
    layout->tokens = cp_arena_take(arena, (size_t)P * sizeof *layout->tokens);
    layout->index = cp_arena_take(arena, (size_t)P * sizeof *layout->index);
    layout->owner = cp_arena_take(arena, all * sizeof *layout->owner);
    layout->slot = cp_arena_take(arena, all * sizeof *layout->slot);
    for (int rank = 0; rank < P; rank++) {
        layout->tokens[rank] = tokens[rank];
        layout->index[rank] = cp_arena_take(arena, B * (size_t)tokens[rank] * sizeof(int64_t));
    }
}

/* The layout of one ulysses group. */
static void plan_ulysses(cp_layout *out, const cp_layout *layout, const cp_exchange_spec *spec, int ring,
                         cp_arena *arena)
{
    int64_t *tokens = cp_arena_take(arena, (size_t)spec->ulysses * sizeof *tokens), all = 0;
    for (int u = 0; u < spec->ulysses; u++)
        all += tokens[u] = layout->tokens[cp_mesh_rank_at(spec, (cp_mesh_place){u, ring})];
    take_layout(out, layout, spec->ulysses, tokens, all, arena);
    for (int64_t b = 0; b < layout->B; b++) {
        int64_t place = b * all;
        for (int64_t n = b * layout->T; n < (b + 1) * layout->T; n++) {
            cp_mesh_place owner = cp_mesh_place_of(spec, layout->owner[n]);
            if (owner.ring != ring)
                continue;
            out->index[owner.ulysses][b * tokens[owner.ulysses] + layout->slot[n]] = place - b * all;
            out->owner[place] = owner.ulysses;
            out->slot[place++] = layout->slot[n];
        }
    }
}

/* The layout of the ring whose ranks hold what their ulysses groups hold. */
static void plan_ring(cp_layout *out, const cp_layout *layout, const cp_exchange_spec *spec, cp_arena *arena)
{
    int R = spec->ring;
    int64_t *tokens = cp_arena_take(arena, (size_t)R * sizeof *tokens);
    int64_t *next = cp_arena_take(arena, (size_t)R * sizeof *next);
    for (int r = 0; r < R; r++)
        tokens[r] = 0;
    for (int rank = 0; rank < layout->P; rank++)
        tokens[cp_mesh_place_of(spec, rank).ring] += layout->tokens[rank];
    take_layout(out, layout, R, tokens, layout->T, arena);
    for (int64_t b = 0; b < layout->B; b++) {
        for (int r = 0; r < R; r++)
            next[r] = 0;
        for (int64_t g = 0; g < layout->T; g++) {
            int r = cp_mesh_place_of(spec, layout->owner[b * layout->T + g]).ring;
            out->owner[b * layout->T + g] = r;
            out->slot[b * layout->T + g] = next[r];
            out->index[r][b * tokens[r] + next[r]++] = g;
        }
    }
}

void cp_mesh_layouts(cp_layout *ulysses, cp_layout *ring, const cp_layout *layout,
                     const cp_exchange_spec *spec, int rank, cp_arena *arena)
{
    cp_check(layout->P == spec->ulysses * spec->ring, "a layout of %d ranks for a mesh of %d times %d",
             layout->P, spec->ulysses, spec->ring);
    plan_ulysses(ulysses, layout, spec, cp_mesh_place_of(spec, rank).ring, arena);
    plan_ring(ring, layout, spec, arena);
}
