/* Small results, dumps and fixtures that the tests of this folder start from. */
#ifndef CPEQ_TESTS_FILES_SAMPLES_H
#define CPEQ_TESTS_FILES_SAMPLES_H

#include "harness/files/dump.h"
#include "harness/files/fixture.h"

enum { SAMPLE_B = 2, SAMPLE_T = 5, SAMPLE_V = 3, SAMPLE_C = 2, SAMPLE_N = 4 };

/* loss, token_loss [B,T], logits [B,T,V], grads/inputs_embeds [B,T,C], grads/w [N], trace/embed [B,T,C]: every value is
 * a small integer that tells tensor and index. A source in memory; everything static. */
cp_source *sample_source(const cp_declaration *declaration);
double sample_value(const char *tensor, int64_t index);

/* The same as a whole dump in `directory`, or as dump of a rank out of two; the path is in `path`. */
void sample_dump(char path[CP_PATH_BYTES], const char *directory);

/* A fixture with weights "w" (float32) and "frozen" (bfloat16), and the results of sample_source but for
 * inputs_embeds' gradient. */
cp_fixture sample_fixture(cp_source *expected);
void sample_fixture_file(char path[CP_PATH_BYTES], const char *directory);

/* Bytes of a file; freed by the caller. */
unsigned char *sample_bytes(const char *path, size_t *count);

#endif
