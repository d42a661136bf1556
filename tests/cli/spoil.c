/* spoil FILE WHAT ARGUMENT…: makes a dump wrong in one way, with the raw library; for structure_test.sh.
 *
 *   remove OBJECT              group OBJECT               shape OBJECT ROWS COLUMNS     fill OBJECT ROWS COLUMNS VALUE
 *   move OBJECT OTHER          soft|external|cyclic OBJECT TARGET                       filter OBJECT ROWS COLUMNS
 *   text NAME VALUE            number NAME VALUE          none NAME…                    index VALUE…
 *   integers OBJECT ROWS COLUMNS                          add OBJECT ROWS COLUMNS       huge OBJECT */
#include "tests/files/odd_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t extent[2];

/* Rows × columns of one value; a vector where there is one column. */
static void fill(const char *file, char **arguments, odd_type type, odd_storage storage, double value)
{
    extent[0] = strtoull(arguments[1], NULL, 10);
    extent[1] = strtoull(arguments[2], NULL, 10);
    size_t count = (size_t)(extent[0] * extent[1]);
    double *values = calloc(count + 1, sizeof *values);
    if (!values)
        exit(4);
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    odd_dataset(file, arguments[0], type, storage, extent[1] > 1 ? 2 : 1, extent, values);
    free(values);
}

static void index_of(const char *file, char **arguments, int count)
{
    int64_t places[64];
    for (int i = 0; i < count && i < 64; i++)
        places[i] = strtoll(arguments[i], NULL, 10);
    extent[0] = (uint64_t)count;
    odd_remove(file, "/token_index");
    odd_dataset(file, "/token_index", ODD_I64, ODD_CONTIGUOUS, 1, extent, places);
}

static void link_to(const char *file, char **arguments, odd_link kind)
{
    odd_remove(file, arguments[0]);
    odd_make_link(file, arguments[0], kind, arguments[1]);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 3;
    const char *file = argv[1], *what = argv[2];
    char **rest = argv + 3;
    int count = argc - 3;
    static const char *const in_place_of[] = {"remove",   "group",  "shape", "fill",
                                              "integers", "filter", "huge"};
    for (size_t i = 0; i < sizeof in_place_of / sizeof *in_place_of; i++)
        if (strcmp(what, in_place_of[i]) == 0)
            odd_remove(file, rest[0]);
    if (strcmp(what, "remove") == 0)
        return 0;
    if (strcmp(what, "group") == 0)
        odd_group(file, rest[0]);
    else if (strcmp(what, "huge") == 0)
        odd_dataset(file, rest[0], ODD_F64, ODD_NEVER_WRITTEN, 2,
                    (const uint64_t[]){UINT64_C(1) << 40, UINT64_C(1) << 40}, NULL);
    else if (strcmp(what, "add") == 0)
        fill(file, rest, ODD_F64, ODD_CONTIGUOUS, 0);
    else if (strcmp(what, "shape") == 0)
        fill(file, rest, ODD_F64, ODD_CONTIGUOUS, 1);
    else if (strcmp(what, "fill") == 0)
        fill(file, rest, ODD_F64, ODD_CONTIGUOUS, strtod(rest[3], NULL));
    else if (strcmp(what, "integers") == 0)
        fill(file, rest, ODD_I64, ODD_CONTIGUOUS, 0);
    else if (strcmp(what, "filter") == 0)
        fill(file, rest, ODD_F64, ODD_SCALEOFFSET, 1);
    else if (strcmp(what, "move") == 0)
        odd_make_link(file, rest[1], ODD_HARD, rest[0]), odd_remove(file, rest[0]);
    else if (strcmp(what, "soft") == 0)
        link_to(file, rest, ODD_SOFT);
    else if (strcmp(what, "external") == 0)
        link_to(file, rest, ODD_EXTERNAL_LINK);
    else if (strcmp(what, "cyclic") == 0)
        link_to(file, rest, ODD_HARD);
    else if (strcmp(what, "text") == 0)
        odd_text(file, "/", rest[0], rest[1]);
    else if (strcmp(what, "number") == 0)
        odd_integer(file, "/", rest[0], atoi(rest[1]));
    else if (strcmp(what, "none") == 0)
        odd_texts(file, "/", "grad_absent", (const char *const *)rest, (size_t)count);
    else if (strcmp(what, "index") == 0)
        index_of(file, rest, count);
    else
        return 3;
    return 0;
}
