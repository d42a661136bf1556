/* Deflated data, unpacked. */
#ifndef CPEQ_HARNESS_FILES_INFLATE_H
#define CPEQ_HARNESS_FILES_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* A whole stream, of exactly `out_bytes` when unpacked; else false. *state begins as NULL, is kept from one to the next,
 * and is freed by cp_inflate_close. */
bool cp_inflate(void **state, void *out, size_t out_bytes, const void *in, size_t in_bytes);
void cp_inflate_close(void *state); /* NULL is allowed */

#endif
