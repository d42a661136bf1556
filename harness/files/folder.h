/* The tree of a file as a folder: dump.json holds the root's attributes, and under a path those of that object
 * ({"/grads/w": {"offset": [0, 0]}}); *.safetensors hold the datasets, whose names are paths without the first slash. */
#ifndef CPEQ_HARNESS_FILES_FOLDER_H
#define CPEQ_HARNESS_FILES_FOLDER_H

#include "harness/files/h5file.h"

bool cp_folder_is_one(const char *path); /* a folder with a dump.json */

/* To read with the calls of h5file.h. */
cp_status cp_folder_open(cp_h5 **out, const char *path);

#endif
