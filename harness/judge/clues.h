/* The sentences about what to look at next, by where the first difference is. Inside the judge.
 *
 * Each writes into `out` and returns true, or has nothing to say. Only what the numbers say is said as a fact. */
#ifndef CPEQ_HARNESS_JUDGE_CLUES_H
#define CPEQ_HARNESS_JUDGE_CLUES_H

#include "harness/judge/pairs.h"

typedef struct cp_clues {
    const cp_result *result; /* complete but for the sentence */
    const cp_sides *sides;
    const cp_declaration *actual;
    const cp_tensor_result *first; /* that differs */
} cp_clues;

/* ---- what is asked of a result ---- */
bool cp_clue_different(const cp_tensor_result *tensor);
const cp_tensor_result *cp_clue_of_kind(const cp_result *result,
                                        cp_tensor_kind kind); /* measured; NULL: none */
bool cp_clue_right(const cp_result *result, cp_tensor_kind kind);

/* Factors agree to more digits than rounding leaves, and to fewer than any two bugs have in common. */
double cp_clue_agreement(cp_dtype dtype);

/* ---- clue_factor.c: one factor on all gradients, or on those of parameters; one that grows with depth ---- */
bool cp_say_factor(char *out, size_t room, const cp_clues *clues);
bool cp_say_partial_factor(char *out, size_t room, const cp_clues *clues);

/* ---- clue_loss.c: what was divided by what, and averaged over what ---- */
bool cp_say_loss(char *out, size_t room, const cp_clues *clues);
void cp_say_count(char *out, size_t room, const cp_clues *clues, double factor); /* ", as if 13 …" */

int cp_clue_idle_rank(const cp_clues *clues); /* one without targets; -1: none, or it is not known */

/* ---- clue_places.c: where along the rows, and on which ranks ---- */
bool cp_say_logits(char *out, size_t room, const cp_clues *clues);
bool cp_say_token_loss(char *out, size_t room, const cp_clues *clues);
bool cp_say_embeds(char *out, size_t room, const cp_clues *clues); /* the gradient of inputs_embeds alone */

/* ---- clue_backward.c: which gradients ---- */
bool cp_say_gradients(char *out, size_t room, const cp_clues *clues);

/* ---- clue_declared.c: what the gradients would be right as, from the values themselves ---- */
bool cp_say_declared(char *out, size_t room, const cp_clues *clues);

/* ---- clue_reduction.c: what became of gradients that were right before their reduction ---- */
bool cp_say_reduction(char *out, size_t room, const cp_clues *clues);

#endif
