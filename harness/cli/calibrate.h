/* The parts of `calibrate`. */
#ifndef CPEQ_HARNESS_CLI_CALIBRATE_H
#define CPEQ_HARNESS_CLI_CALIBRATE_H

#include "base/json.h"
#include "harness/cli/command.h"
#include "harness/judge/observations.h"

/* One calibration of a file: printed, or appended to `files` where that is not NULL. */
void cp_tell_calibration(const cp_session *session, cp_json *files, const char *path,
                         const cp_calibration *calibration, const cp_sight *sight);

/* The document of all; takes `files` over. */
void cp_print_calibrations(cp_json *files);

/* With the engine: replicates of the reference for each fixture; the exit status. */
int cp_calibrate_fixtures(const cp_session *session, const cp_arguments *arguments);

#endif
