/* The tree of a file as a folder: dump.json holds the root's attributes, and under a path those of that object
 * ({"/grads/w": {"offset": [0, 0]}}); *.safetensors hold the datasets, whose names are paths without the first slash.
 * Behind h5file.h, whose calls these stand for; failures are as there. */
#ifndef CPEQ_HARNESS_FILES_FOLDER_H
#define CPEQ_HARNESS_FILES_FOLDER_H

#include "harness/files/h5file.h"

typedef struct cp_folder cp_folder;

bool cp_folder_is_one(const char *path); /* a folder with a dump.json */
cp_status cp_folder_open(cp_folder **out, const char *path);
void cp_folder_close(cp_folder *folder); /* NULL is allowed */

void cp_folder_look(const cp_folder *folder, const char *path, cp_h5_kind *kind);
cp_status cp_folder_list(const cp_folder *folder, cp_pool *pool, const char *group,
                         const cp_h5_member **members, size_t *count);
cp_status cp_folder_describe(const cp_folder *folder, const char *path, cp_h5_array *array);
cp_status cp_folder_read(const cp_folder *folder, const char *path, int64_t first, int64_t count, void *out);

/* An attribute: a string, or with `behind` a list of them, each with that behind it; a value that is none of both is
 * taken as its JSON text where `document` is asked for. */
cp_status cp_folder_text(const cp_folder *folder, cp_pool *pool, const char *object, const char *name,
                         const char *behind, bool document, const char **out, bool *found);
/* Numbers; of reals one alone. A truth is 0 or 1. */
cp_status cp_folder_integers(const cp_folder *folder, const char *object, const char *name, int64_t *out,
                             int room, int *count, bool *found);
cp_status cp_folder_real(const cp_folder *folder, const char *object, const char *name, double *out,
                         bool *found);
bool cp_folder_has(const cp_folder *folder, const char *object, const char *name);

#endif
