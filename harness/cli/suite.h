/* A suite: which dumps are to be judged against what. Read from JSON (docs/gate.md, "Suites") or made of two folders. */
#ifndef CPEQ_HARNESS_CLI_SUITE_H
#define CPEQ_HARNESS_CLI_SUITE_H

#include "base/json.h"
#include "harness/files/pool.h"
#include "harness/report/gate.h"

/* One dump. Texts belong to the suite and are never NULL unless so said. */
typedef struct cp_suite_row {
    const char *name;         /* no two have the same */
    const char *expected;     /* a fixture, or a dump; "": an extra dump */
    const char *fixture;      /* that two dumps were made from; NULL: none */
    const char *wanted;       /* the dump's path, or the pattern that nothing fits */
    const char *const *paths; /* the dump, or the files of its ranks */
    size_t path_count;        /* 0: it is missing, or extra, and … */
    const char *absent;       /* … what there is to say of that */
    const char *only;         /* NULL: all tensors */
    bool user_limits;
    double rtol, atol;
    const char *limits;    /* a file of limits; NULL: none */
    cp_gate_outcome known; /* anything but same: a known failure, and … */
    const char *because;   /* … why it is known, */
    const char *says;      /* … what its sentence holds */
} cp_suite_row;

typedef struct cp_suite {
    cp_pool pool;
    cp_suite_row *rows;
    size_t count, room;
} cp_suite;

/* Reads a suite; paths in it begin at its own folder. CP_BAD_INPUT with file and place for what is no suite. Zeroed before;
 * close on failure too. */
cp_status cp_suite_read(cp_suite *suite, const char *path);

/* The same of text: sentences begin with `where`, paths at `folder` ("": the working one). */
cp_status cp_suite_parse(cp_suite *suite, const char *text, size_t length, const char *where,
                         const char *folder);

/* Every fixture below a folder with the dump of the same name below the other one: `dumps`/NAME.h5, or the folder
 * `dumps`/NAME with the files of all ranks. A dump without a fixture is an extra row. */
cp_status cp_suite_folders(cp_suite *suite, const char *fixtures, const char *dumps);

void cp_suite_close(cp_suite *suite);

#endif
