/* A source is anything with named results: a fixture's expectations, a dump, the joined dumps of all ranks, a run that
 * is still in memory. Names are paths without the first slash: "loss", "token_loss", "logits", "grads/<parameter>",
 * "grads/inputs_embeds", "trace/<register>". */
#ifndef CPEQ_HARNESS_FILES_SOURCE_H
#define CPEQ_HARNESS_FILES_SOURCE_H

#include "base/tensor.h"

typedef enum cp_loss_kind {
    CP_LOSS_GLOBAL,      /* the loss of the whole batch */
    CP_LOSS_SHARE,       /* the ranks' sum is the loss */
    CP_LOSS_MEAN,        /* the ranks' mean is */
    CP_LOSS_PARTIAL_SUM, /* a sum of token losses; the ranks' sum divided by the count is the loss */
    CP_LOSS_LOCAL_MEAN,  /* a mean over this rank's targets */
    CP_LOSS_KINDS
} cp_loss_kind;

typedef enum cp_gradient_kind {
    CP_GRADIENTS_REDUCED, /* as the optimizer sees them */
    CP_GRADIENTS_PARTIAL, /* the ranks' sum is */
    CP_GRADIENTS_MEAN,    /* the ranks' mean is */
    CP_GRADIENT_KINDS
} cp_gradient_kind;

/* How `implementation` begins in cpeq's own dumps. */
#define CP_OWN_NAME "cpeq "

/* What a dump says about itself; file-format document, "Dump". Strings and arrays are borrowed from the source and
 * never NULL ("" where the file says nothing). */
typedef struct cp_declaration {
    const char *fixture_id, *implementation, *exchange, *layout;
    bool attention;       /* results of an attention function alone: out, lse, dq, dk, dv, dsink */
    int cp_size, cp_rank; /* cp_rank -1: whole */
    int dp_size, dp_rank;
    bool dtype_declared;
    cp_dtype compute_dtype; /* where it is not declared: the narrowest stored float */
    bool islands;           /* float32 casts inside a float64 run */
    cp_loss_kind loss_kind;
    int64_t loss_count; /* targets on this rank; -1: not declared */
    cp_gradient_kind gradients;
    double grad_scale;       /* stored / true */
    const char *grad_absent; /* newline-separated names whose gradient is None, with a final newline, or "" */
    int64_t B, S;            /* extents of token_index; S is the local length */
    const int64_t
        *token_index; /* [B,S]: global index of each local position, -1 = padding; NULL: whole, in order */
    const int64_t *batch_index;  /* [B]: global row; NULL: all, in order */
    int64_t logits_rows;         /* of logits [n,V] that are of some positions alone; else 0 */
    const int64_t *logits_index; /* [n,2]: global row and position of each; NULL: logits of all positions */
} cp_declaration;

/* The defaults of the format: whole, float64 not declared, a global loss, reduced gradients, nothing said. */
cp_declaration cp_declaration_whole(void);

/* "global", "partial", … as files say it; and back, false where there is no such word. */
const char *cp_loss_kind_name(cp_loss_kind kind);
const char *cp_gradient_kind_name(cp_gradient_kind kind);
bool cp_loss_kind_named(cp_loss_kind *kind, const char *name);
bool cp_gradient_kind_named(cp_gradient_kind *kind, const char *name);

typedef struct cp_source_tensor {
    const char *name;
    cp_dtype dtype; /* as stored */
    int dims;       /* 0: a scalar */
    int64_t extent[CP_MAX_DIMS];
    /* Of one rank's slice of a gradient, else false and zero: the extents of the whole, where the slice begins in it, and
     * whether other ranks hold the same slice. */
    bool slice, replicated;
    int64_t whole[CP_MAX_DIMS], offset[CP_MAX_DIMS];
} cp_source_tensor;

/* What one dump file says was run: an input as it reached the model, or a weight after loading. */
typedef struct cp_ran {
    cp_source_tensor tensor; /* "position_ids", "weights/<parameter>"; dtype and extents of an array alone */
    const char *digest;      /* 64 hexadecimal digits; NULL: an array */
} cp_ran;

/* How a tensor is best cut: pieces that begin at multiples of `elements` (1: anywhere) are decompressed but once, and
 * who looks at one takes `bytes` for it (0: nothing is decompressed). */
typedef struct cp_grain {
    int64_t elements;
    size_t bytes;
} cp_grain;

struct cp_view; /* view.h */

typedef struct cp_source cp_source;
struct cp_source {
    const char *label; /* what sentences call it: a path, or "run" */
    cp_declaration declaration;
    size_t count;
    const cp_source_tensor *tensors; /* sorted by name */
    const char *notes;               /* sentences for the verdict, a newline behind each; NULL or "": none */

    /* `count` elements of a tensor from the `first` on, in global row-major order, as double. Several threads may read
     * at the same time. */
    cp_status (*read)(const cp_source *source, size_t tensor, int64_t first, int64_t count, double *out);
    /* The same where they lie, for view.h; NULL: only `read` is to be used. */
    cp_status (*look)(const cp_source *source, struct cp_view *view, size_t tensor, int64_t first,
                      int64_t count, const void **data, cp_dtype *dtype);
    cp_grain (*grain)(const cp_source *source, size_t tensor); /* NULL: cut it anywhere */
    void (*close)(cp_source *source);                          /* frees it; NULL for a source on the stack */

    /* Of one dump file, which reads arrays as `read` does. A joined source has only its parts'. */
    size_t ran_count;
    const cp_ran *ran;
    cp_status (*read_ran)(const cp_source *source, size_t item, int64_t first, int64_t count, double *out);
    void *state;
};

/* The index of a tensor by name; -1: the source has none. */
int64_t cp_source_find(const cp_source *source, const char *name);
void cp_source_close(cp_source *source); /* NULL is allowed */

/* Reads a whole tensor. `out` has room for all of its elements. */
cp_status cp_source_read_all(const cp_source *source, size_t tensor, double *out);

/* ---- in memory --------------------------------------------------------------------------------------------------
 * A source over tensors that somebody else owns and that outlive it (contiguous, float64, float32 or bfloat16). Names
 * and label are copied; the declaration's strings and arrays are borrowed (NULL strings become ""). A scalar is given as one element with
 * `scalar` true. */
typedef struct cp_memory_tensor {
    const char *name;
    cp_tensor tensor;
    bool scalar;
} cp_memory_tensor;

cp_status cp_source_memory(cp_source **out, const char *label, const cp_declaration *declaration,
                           const cp_memory_tensor *tensors, size_t count);

/* ---- joining ----------------------------------------------------------------------------------------------------
 * One whole source of the dumps of all ranks: the only place where a layout is undone. Takes the parts over (closes
 * them with itself; on failure too). `B` and `T` are those of the fixture, or 0: as far as the token indices go.
 *   rows [B,S,...] (token_loss, logits, grads/inputs_embeds, trace/…) are placed by token_index, padding removed;
 *   gradients of parameters are summed in rank order (partial), averaged (mean) or taken from the lowest rank
 *   (reduced), and divided by grad_scale; cp_join_replicas tells how far reduced ones differ between ranks;
 *   the loss is joined as loss_kind says.
 * CP_INCOMPARABLE, with the ranks and the object: a rank missing, twice, of another run (fixture_id, cp_size, layout,
 * exchange, dtypes, kinds), a global token missing or twice, another shape, a tensor that one rank lacks. One whole
 * part passes through (its token_index, grad_scale and loss_kind honoured too). */
cp_status cp_source_join(cp_source **out, cp_source **parts, size_t count, int64_t B, int64_t T);

/* What the ranks' sum of token losses is divided by, where loss_kind is partial_sum or local_mean: the divisor of the
 * batch that they ran. Without this call it is the sum of the ranks' loss_count. Reading "loss" is CP_INCOMPARABLE where
 * neither is above 0. */
void cp_join_divide(cp_source *source, double count);

/* Notes each rank whose loss_count is not what its positions have of targets: `is_target` [B,T] of the whole batch. */
cp_status cp_join_count(cp_source *source, const uint8_t *is_target);

/* Where a global token lies. */
typedef struct cp_place {
    int32_t part;
    int64_t row; /* b · S + s in that part */
} cp_place;

/* The parts of a joined source, by rank, and the places of all tokens [B,T] in them (NULL: one whole part, in order). 0
 * for any other source. */
size_t cp_join_parts(const cp_source *source, cp_source *const **parts, const cp_place **places);

/* [B,T] of a joined source: 1 where its logits are kept; NULL: all are. Others are read as NaN. */
const uint8_t *cp_join_kept(const cp_source *source);

/* Largest relative Frobenius difference between the ranks' replicas of a reduced gradient or of a global loss (infinite
 * where one of them is not finite); 0 for anything else. */
cp_status cp_join_replicas(const cp_source *source, size_t tensor, double *difference);

#endif
