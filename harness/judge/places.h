/* Which elements are judged, which are not, and which must be zero: from batch and configuration alone, never from
 * where the expected values happen to be zero. */
#ifndef CPEQ_HARNESS_JUDGE_PLACES_H
#define CPEQ_HARNESS_JUDGE_PLACES_H

#include "harness/files/fixture.h"
#include "harness/judge/compare.h"
#include "harness/judge/result.h"

/* CP_PLACE_… for each row of a tensor's leading axes. */
typedef struct cp_rows {
    const uint8_t *places; /* NULL: everything is judged */
    int64_t length;        /* elements of a row */
} cp_rows;

typedef struct cp_places {
    int64_t B, T;
    uint8_t *rows;         /* [B,T]: padding is not judged */
    uint8_t *embeds;       /* [B,T]: padding must be zero */
    uint8_t *logits;       /* [B,T]: nor is a position whose logits were not kept; NULL: as `rows` */
    uint8_t *targets;      /* [B,T]: nor is a position that predicts nothing; NULL: as `rows` */
    const char *embedding; /* the untied embedding whose unused ids must be zero; NULL: none */
    int64_t V;
    uint8_t *ids; /* [V] */
} cp_places;

/* A position is padding where attention_mask is 0 or document_ids is -1. An id that does not stand in the batch has a
 * gradient of exactly zero where the embedding is no output matrix too. `fixture` NULL: everything is judged. */
void cp_places_open(cp_places *places, const cp_fixture *fixture);

/* Logits are judged where both sides have them; NULL: a side has all. [B,T] each. */
void cp_places_keep(cp_places *places, int64_t B, int64_t T, const uint8_t *expected, const uint8_t *actual);
void cp_places_close(cp_places *places);

/* False: the tensor should have a row for every position of the batch, and has not. */
bool cp_places_rows(cp_rows *rows, const cp_places *places, const char *name, cp_tensor_kind kind, int dims,
                    const int64_t *extent);

/* The places of elements [first, first + count). */
void cp_rows_fill(uint8_t *out, cp_rows rows, int64_t first, int64_t count);

#endif
