/* Hostile input: each target hands bytes to one reader, which must end with a status and no memory out of place. The
 * fuzzers (entry.c) draw the bytes; the ladder replays those of corpus/ (replay.c). */
#ifndef CPEQ_TESTS_FUZZ_TARGETS_H
#define CPEQ_TESTS_FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

typedef void fuzz_target(const uint8_t *data, size_t size);

fuzz_target fuzz_json;        /* any JSON: parsed, walked, written */
fuzz_target fuzz_config;      /* a config.json, to a program */
fuzz_target fuzz_suite;       /* a suite of gate */
fuzz_target fuzz_name_map;    /* a dump's name_map, over tensors of a few shapes */
fuzz_target fuzz_arguments;   /* lines are arguments: batches, layouts, exchanges, numbers */
fuzz_target fuzz_safetensors; /* a file of tensors, which are weights or a batch */
fuzz_target fuzz_folder;      /* a dump.json and the tensors beside it */
fuzz_target fuzz_recipe;      /* a sound HDF5 file of hostile content, as recipe.h makes it */
fuzz_target fuzz_hdf5;        /* the bytes of an HDF5 file */

/* A file that is gone with this process: its path, which stays the same, after `data` was written to it. */
const char *fuzz_file(int which, const uint8_t *data, size_t size);
enum { FUZZ_FILES = 4 };

/* Opens a file as everything that it could be and reads all of it; `paths` together as the dump of several ranks. */
void fuzz_read_files(const char *const *paths, size_t count);

#endif
