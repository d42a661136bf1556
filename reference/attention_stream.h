/* Attention with tiles of keys streaming past tiles of queries: the core of the forms that never hold the scores of a
 * query against every key. Private to the kernels.
 *
 * Forward: keys go by in blocks; a row keeps the greatest score m, the sum l of exp(z − m) and o = Σ exp(z − m) v, all
 * three brought to a new m where a block raises it. At the end o / l and lse = m + log l. Under CP_ROUND_BF16
 * probabilities are rounded after they are normalised, as eager attention does; so the keys go by twice: once for m
 * and l, once for p and o.
 * Backward: from lse, block by block.
 *
 * Scratch of a thread is that of one tile of queries against one block of keys, and one byte a tile of keys. Blocks
 * begin at fixed keys, whatever is visible: under CP_MATMUL_ORDERED a row of o, lse and dq is bitwise the same
 * whichever other queries are in the call.
 *
 * An element of o, lse and dq belongs to one tile of queries. One of dk and dv belongs to one unit of heads; where
 * units are few, a unit's tiles of queries are dealt out to several slices, of which all but the first sum into
 * accumulators of their own, added in order at the end. How many is decided by shapes, never by threads. */
#ifndef CPEQ_REFERENCE_ATTENTION_STREAM_H
#define CPEQ_REFERENCE_ATTENTION_STREAM_H

#include "reference/attention_tile.h"

/* As cp_attention_ops has them, with another source of the mask. */
void CP_WIDTH(cp_stream_forward)(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                                 const cp_attention *attention, cp_tile_mask mask, cp_arena *scratch,
                                 cp_precision precision);
void CP_WIDTH(cp_stream_backward)(const cp_attention_gradients *gradients, cp_tensor q, cp_tensor k,
                                  cp_tensor v, const cp_attention *attention, cp_tile_mask mask,
                                  cp_arena *scratch, cp_precision precision);

#define cp_stream_forward  CP_WIDTH(cp_stream_forward)
#define cp_stream_backward CP_WIDTH(cp_stream_backward)

#endif
