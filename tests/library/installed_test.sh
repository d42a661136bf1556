#!/usr/bin/env bash
# installed_test.sh SOURCE BUILD: the commands of docs/library.md, as they stand there, in a folder that looks like the
# repository; then both examples over fixtures and ranks, right and broken.
set -u -o pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 4
ln -s "$source/examples" "$source/fixtures" .
mkdir build && ln -s "$build" build/release
export PREFIX=$work/prefix

fail() {
    echo "FAILED: $1"
    [ -z "${2-}" ] || sed 's/^/    | /' "$2"
    exit 1
}

fortran=no
if echo 'end' >empty.f90 && mpifort empty.f90 -o empty 2>/dev/null; then fortran=yes; fi
rm -f empty*

# commands LANGUAGE: the blocks of that language, in order.
commands() { awk -v open="\`\`\`$1" '$0 == open { inside = 1; next } /^```/ { inside = 0 } inside' "$source/docs/library.md"; }
commands sh >sh.sh
[ "$(wc -l <sh.sh)" -ge 8 ] || fail 'docs/library.md holds its commands' sh.sh
# shellcheck disable=SC1091
(set -ex && . ./sh.sh) >log 2>&1 || fail 'the commands of docs/library.md' log
grep -q '^SAME ' log && grep -q 'errors: outputs ' log || fail 'the dump of docs/library.md is the same' log
export PATH=$PREFIX/bin:$PATH LD_LIBRARY_PATH=$PREFIX/lib PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig

# Statically by pkg-config, and whether pictures of the build tree are left in what is installed.
# shellcheck disable=SC2046
mpicc -c examples/mpi.c $(pkg-config --cflags cpeq) -o mpi.o >log 2>&1 || fail 'compiles' log
# shellcheck disable=SC2046
mpicc mpi.o "$PREFIX/lib/libcpeq.a" $(pkg-config --static --libs-only-l cpeq | sed 's/-lcpeq//') \
    $(pkg-config --libs hdf5) -lm -o mpi_static >log 2>&1 || fail 'links statically' log
bash "$source/tests/rules/links.sh" "$PREFIX/share/doc/cpeq" >log || fail 'the links of the installed documents' log
cpeq info "$PREFIX/share/doc/cpeq/fixtures/golden/llama/full7.h5" >log 2>&1 || fail 'the installed fixtures' log
if grep -rlF "$build" "$PREFIX/lib/pkgconfig" "$PREFIX/lib/cmake"; then fail 'the packages can be moved'; fi

# judge STATUS WORDS PROGRAM RANKS CASE [OPTION]
judge() {
    local status=$1 words=$2 program=$3 ranks=$4 fixture=$source/fixtures/attention/$5.h5
    rm -rf dumps && mkdir dumps
    mpirun -n "$ranks" "./$program" "$fixture" dumps ${6-} >log 2>&1 || fail "$program on $ranks ranks, $5" log
    cpeq diff "$fixture" dumps >log 2>&1
    [ $? -eq "$status" ] || fail "$program on $ranks ranks, $5: expected status $status" log
    grep -qF -e "$words" log || fail "$program on $ranks ranks, $5: nothing says '$words'" log
}

judge 0 SAME mpi_c 2 window_packed16
judge 0 SAME mpi_static 3 left12
judge 0 SAME build-examples/mpi_c 3 heads13
judge 1 'only gradients of keys and values differ: look' mpi_c 2 full12 --broken
if [ $fortran = yes ]; then
    commands 'sh fortran' >fortran.sh
    # shellcheck disable=SC1091
    (set -ex && . ./fortran.sh) >log 2>&1 || fail 'the Fortran command of docs/library.md' log
    judge 0 SAME mpi_f90 3 sink16
    judge 0 SAME mpi_f90 2 softcap12
    judge 0 SAME build-examples/mpi_f90 3 both_ways_right12
    judge 1 'first difference in execution order: out' mpi_f90 3 packed16 --broken
fi
echo "Fortran: $fortran"
