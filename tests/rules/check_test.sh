#!/bin/bash
# check_test.sh COMPILER: check.sh finds each kind of violation, planted one by one in a tree that has none.
set -u
compiler=$1
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d "${TMPDIR:-/tmp}/cpeq-rules-XXXXXX")
trap 'rm -rf "$tree"' EXIT
failed=0

fresh_tree() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/{base/tokens,reference,models,scripts,build} \
        "$tree"/harness/{files,judge,report,parallel,run,explain,cli} "$tree"/tests/base
    printf '#ifndef A\n#define A\n#include <stdint.h>\n#endif\n' >"$tree/base/a.h"
    for header in base/tokens/t.h reference/ops.h models/m.h harness/files/f.h harness/judge/result.h \
        harness/judge/diff.h harness/report/r.h harness/parallel/decisions.h harness/run/run.h tests/base/t.h; do
        printf '#include "base/a.h"\n' >"$tree/$header"
    done
    printf '#include <jansson.h>\n#include "base/tokens/t.h"\n' >"$tree/base/json.c"
    printf '#include <cblas.h>\n#include <omp.h>\n' >"$tree/reference/matmul.c"
    printf '#include "harness/judge/result.h"\n' >"$tree/harness/report/text.c"
    printf '#include "harness/parallel/decisions.h"\n' >"$tree/harness/parallel/decisions.c"
    printf '#include "harness/parallel/decisions.h"\n#include "models/m.h"\n' >"$tree/harness/run/run.c"
    printf '#include "harness/report/r.h"\n#include <popt.h>\n' >"$tree/harness/cli/main.c"
    printf '# One heading\n[b](docs/b.md) [self](#one-heading) [out](https://x.y)\n' >"$tree/README.md"
    mkdir -p "$tree/docs" && printf '# A `b`, *c*!\n[up](../README.md#one-heading) [here](#a-b-c) `[code](no.md)`\n' >"$tree/docs/b.md"
    printf '# never -ffast-math\nset(x -O3)\n' >"$tree/CMakeLists.txt"
    printf '#include "anything.h"\nset(x -Ofast)\n' >"$tree/build/CMakeLists.txt"
}

# found SENTENCE [COMPILER]: the tree is refused with it, and with nothing else.
found() {
    local output
    output=$(bash "$here/check.sh" "$tree" "${2-}")
    if [ $? -ne 1 ] || [ "$(echo "$output" | wc -l)" -ne 1 ] || ! echo "$output" | grep -qF -- "$1"; then
        printf 'expected: %s\nfound: %s\n' "$1" "$output"
        failed=1
    fi
}

# planted FILE LINE SENTENCE: LINE is appended to FILE.
planted() {
    fresh_tree
    printf '%s\n' "$2" >>"$tree/$1"
    found "$1:$3"
}

fresh_tree
if ! bash "$here/check.sh" "$tree" "$compiler"; then
    echo "the tree without violations is refused"
    exit 1
fi

mkdir "$tree/empty"
bash "$here/check.sh" "$tree/empty" >/dev/null
if [ $? -ne 2 ]; then
    echo "a tree without sources is accepted"
    exit 1
fi

planted docs/b.md '[gone](c.md)' ' links to c.md, which is not there'
planted docs/b.md '[gone](../README.md#two)' ' links to ../README.md#two, where there is no such heading'
planted base/json.c '#include "reference/ops.h"' '3: base may not include "reference/ops.h"'
planted base/json.c '#include "harness/files/f.h"' '3: base may not include "harness/files/f.h"'
planted reference/matmul.c '#include "models/m.h"' '3: reference may not include'
planted reference/ops.h '#  include "harness/parallel/decisions.h"' '2: reference may not include'
planted models/m.h '#include "harness/run/run.h"' '2: models may not include'
planted harness/files/f.h '#include "harness/judge/result.h"' '2: harness/files may not include'
planted harness/judge/diff.h '#include "reference/ops.h"' '2: harness/judge may not include'
planted harness/report/text.c '#include "harness/judge/diff.h"' '2: harness/report may not include "harness/judge/diff.h"'
planted harness/report/r.h '#include "harness/files/f.h"' '2: harness/report may not include'
planted harness/parallel/decisions.c '#include "models/m.h"' '2: harness/parallel may not include'
planted harness/parallel/decisions.c '#include "harness/files/f.h"' '2: harness/parallel may not include'
planted harness/run/run.c '#include "tests/base/t.h"' '3: harness/run may not include "tests/base/t.h"'
planted harness/cli/main.c '#include "tests/base/t.h"' '3: harness/cli may not include "tests/base/t.h"'
planted harness/parallel/shard.c '#include "harness/parallel/decisions.h"' \
    '1: "harness/parallel/decisions.h" is for harness/parallel/decisions.c harness/run/'
planted base/rng.c '#include <jansson.h>' '1: <jansson.h> is for base/json.c only'
planted harness/files/dump.c '#include <hdf5.h>' '1: <hdf5.h> is for harness/files/h5file.c harness/files/h5copy.c harness/files/h5raw.c only'
planted harness/parallel/shard.c '#include <mpi.h>' '1: <mpi.h> is for harness/parallel/comm_mpi.c only'
planted reference/ops.c '#include <cblas.h>' '1: <cblas.h> is for reference/matmul.c harness/cli/bench.c only'
planted harness/report/text.c '#include <libxml/xmlwriter.h>' '2: <libxml/xmlwriter.h> is for'
planted harness/run/run.c '#include <popt.h>' '3: <popt.h> is for harness/cli/ only'
planted base/rng.c '#include <curl/curl.h>' '1: <curl/curl.h> is no header of borders.txt'
planted base/rng.c '#include "jansson.h"' '1: "jansson.h" is no file seen from the root'
planted base/rng.c '#include HEADER' '1: an #include that names no file'
planted harness/other.c 'int x;' '1: stands in no room'
planted base/rng.c '#include "base/absent.h"' '1: "base/absent.h" is no file seen from the root'
planted CMakeLists.txt 'add_compile_options(-ffast-math)' '3: -ffast-math changes results'
planted scripts/bench 'CFLAGS="-O3 -march=native" cmake' '1: -march=native changes results'
planted CMakePresets.json '"CMAKE_C_FLAGS": "-Ofast"' '1: -Ofast changes results'
planted base/rng.c '#pragma GCC optimize("O3")' '1: optimisation is set for the whole build'

fresh_tree
echo 'size_t unknown(void);' >"$tree/harness/files/f.h"
found 'harness/files/f.h:1: does not compile alone' "$compiler"

fresh_tree
yes '/* a line */' | head -500 >"$tree/tests/base/long_test.c"
bash "$here/check.sh" "$tree" || failed=1
echo >>"$tree/tests/base/long_test.c"
found 'tests/base/long_test.c:501: a file has at most 500 lines'

exit $failed
