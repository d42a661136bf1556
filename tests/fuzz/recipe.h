/* HDF5 files from text, a line an object:
 *
 *   group PATH
 *   array PATH TYPE STORAGE EXTENTS FIRST STEP    f64 f32 f16 bf16 i64 i32 i16 u16 u8, a big-endian one with ">" before it;
 *                                                 contiguous compact chunked packed absent; "4,3", or "-" for a scalar
 *   text PATH WORDS…                              a string
 *   string|fixed|number|real OBJECT NAME VALUE…   attributes: varying length, fixed, integer, float64
 *   strings OBJECT NAME WORD WORD…                a list
 *   link PATH soft|hard|external TARGET
 *   remove PATH
 *   next                                          the lines that follow are of the next file
 *
 * What cannot be done is left undone: a fuzzer writes these lines. */
#ifndef CPEQ_TESTS_FUZZ_RECIPE_H
#define CPEQ_TESTS_FUZZ_RECIPE_H

#include <stddef.h>

/* Makes the file at `path` from the lines at `text` and returns where those of the next file begin; NULL: there is none.
 * A fixture gets the id that its contents have. */
const char *recipe_make(const char *path, const char *text);

#endif
