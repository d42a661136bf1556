#include "harness/cli/command.h"

#define CALIBRATE_CONTROLS                                                                                   \
    "With --from, RUN... are at least eight unsharded runs of your own in the precision that you train "     \
    "in,\n"                                                                                                  \
    "each different in some irrelevant way: rows permuted, another kernel, weights moved by one rounding.\n" \
    "A RUN is a dump, or a folder with those of its ranks.\n\n"                                              \
    "Example:\n"
#define CALIBRATE_OWN "  cpeq calibrate --from float64.h5 run-*.h5 -o limits.h5\n"
#if CPEQ_ENGINE
#define CALIBRATE_OPERANDS "FIXTURE|DIR... | --from TRUTH RUN..."
#define CALIBRATE_DETAILS                                                                                    \
    "The reference is run with its rounding disturbed and its sums permuted; the limits are kept in the\n"   \
    "fixture.\n\n" CALIBRATE_CONTROLS "  cpeq calibrate mine.h5\n" CALIBRATE_OWN
#else
#define CALIBRATE_OPERANDS "--from TRUTH RUN..."
#define CALIBRATE_DETAILS  CALIBRATE_CONTROLS CALIBRATE_OWN
#endif

/* Without the engine only what needs no run is there; nothing else differs. */
const cp_command cp_commands[] = {
    {
        .name = "info",
        .operands = "FILE...",
        .summary = "What a fixture, a dump or a config.json is, with its batch drawn",
        .options = cp_info_options,
        .details = "A folder is the dump of all ranks whose files it holds.\n\n"
                   "Example:\n  cpeq info fixtures/golden/llama/packed7.h5 --cp 2\n",
        .run = cp_command_info,
    },
#if CPEQ_ENGINE
    {
        .name = "make",
        .operands = "CONFIG -o FIXTURE",
        .summary = "A fixture computed by the reference in float64",
        .options = cp_make_options,
        .details =
            "CONFIG is a config.json or the name of a family. Weights are drawn from the seed, or read.\n"
            "The truth of such a fixture is cpeq's own: it shows consistency, not correctness.\n\n"
            "Example:\n  cpeq make qwen3 --batch packed:5,1,7,3 -o mine.h5\n",
        .run = cp_command_make,
    },
    {
        .name = "export",
        .operands = "FIXTURE -o DIR",
        .summary = "A fixture as a Hugging Face folder: config.json, model.safetensors, batch.safetensors",
        .options = cp_export_options,
        .details = "Example:\n  cpeq export fixtures/golden/llama/packed7.h5 -o llama\n",
        .run = cp_command_export,
    },
    {
        .name = "run",
        .operands = "FIXTURE -o DUMP",
        .summary = "One run of the reference, unsharded or sharded, kept as a dump",
        .options = cp_run_command_options,
        .details = "Example:\n  cpeq run fixtures/golden/llama/packed7.h5 --cp 2 --per-rank -o ranks\n",
        .collective = true,
        .run = cp_command_run,
    },
    {
        .name = "verify",
        .operands = "FIXTURE|DIR...",
        .summary = "Each fixture in each combination, run and judged against what the fixture expects",
        .options = cp_verify_options,
        .details =
            "Lists are separated by commas; 'all' is every value there is. A combination that cannot mean\n"
            "anything is listed as refused, with the reason.\n\n"
            "Example:\n  cpeq verify fixtures/golden --cp 1,2,4 --filter 'llama/*'\n",
        .collective = true,
        .run = cp_command_verify,
    },
#endif
    {
        .name = "diff",
        .operands = "EXPECTED ACTUAL...",
        .summary = "Judges a dump against a fixture or another dump",
        .options = cp_diff_command_options,
        .details = "ACTUAL is one file, or those of all ranks, or a folder that holds them.\n\n"
                   "Example:\n  cpeq diff fixtures/golden/llama/packed7.h5 ranks\n",
        .run = cp_command_diff,
    },
    {
        .name = "gate",
        .operands = "SUITE | FIXTURES DUMPS",
        .summary = "Judges many dumps against many fixtures: one table, one exit status",
        .options = cp_gate_options,
        .details =
            "SUITE is a JSON list of dumps and what each is held against. Of two folders each fixture is\n"
            "held against the dump of the same name. A dump that is missing, or belongs to nothing, "
            "fails.\n\n"
            "Example:\n  cpeq gate suite.json --markdown summary.md\n",
        .run = cp_command_gate,
    },
    {
        .name = "calibrate",
        .operands = CALIBRATE_OPERANDS,
        .summary = "Measures how far right runs are from a truth, and keeps limits made of that",
        .options = cp_calibrate_options,
        .details = CALIBRATE_DETAILS,
        .run = cp_command_calibrate,
    },
#if CPEQ_ENGINE
    {
        .name = "faults",
        .operands = "",
        .summary = "The decisions that context parallelism makes, and their wrong values",
        .options = cp_faults_options,
        .details = "With --quiet one DECISION=VALUE a line, as --fault of run and verify takes it.\n\n"
                   "Example:\n  cpeq faults\n",
        .run = cp_command_faults,
    },
#endif
    {0},
};
