/* One fuzzer: FUZZ_TARGET is compiled in. */
#include "tests/fuzz/targets.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A check that does not hold is a find like any other; an exit would leave no input behind. */
static void stop(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    cp_set_panic_hook(stop);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FUZZ_TARGET(data, size);
    return 0;
}
