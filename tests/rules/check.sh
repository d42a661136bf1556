#!/bin/bash
# check.sh ROOT [COMPILER]: the borders between the rooms of the tree at ROOT.
#
# Prints "file:line: sentence" for each violation and ends with 1 if there is any. With COMPILER each header is
# compiled alone too. Needs nothing but a shell, awk and find.
set -u -o pipefail
root=$1
compiler=${2-}
here=$(cd "$(dirname "$0")" && pwd)
cd "$root" || exit 2

code_rooms=()
for room in base reference models harness library; do
    [ -d "$room" ] && code_rooms+=("$room")
done

sources=$(find -H "${code_rooms[@]}" -type f -name '*.[ch]' | wc -l)
if [ "$sources" -eq 0 ]; then
    echo "$root: no source is found: nothing would be checked"
    exit 2
fi

# Everything that people write, without build trees.
written() {
    find . \( -name build -o -name 'build-*' -o -name .git \) -prune -o -type f \( "$@" \) -print | sed 's|^\./||' | sort
}

check_includes() {
    find -H "${code_rooms[@]}" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sort |
        xargs awk -f "$here/includes.awk" "$here/borders.txt"
}

# Flags that change what floating-point arithmetic gives, in whatever a build reads; '#' begins a comment in most of it.
check_flags() {
    written -name CMakeLists.txt -o -name '*.cmake' -o -name CMakePresets.json -o -path './scripts/*' |
        xargs awk '
            { line = $0 }
            FILENAME !~ /json$/ { sub(/(^|[ \t])#.*/, "", line) }
            match(line, /-(ffast-math|Ofast|m(arch|tune)=native|funsafe-math|fassociative-math|ffinite-math|freciprocal-math)/) {
                print FILENAME ":" FNR ": " substr(line, RSTART, RLENGTH) " changes results"
            }'
    find -H "${code_rooms[@]}" -type f \( -name '*.c' -o -name '*.h' \) | sort |
        xargs awk '
            /#[ \t]*pragma[ \t]+(GCC[ \t]+optimize|STDC[ \t]+FP_CONTRACT[ \t]+ON)|__attribute__.*optimize/ {
                print FILENAME ":" FNR ": optimisation is set for the whole build, not in a file"
            }'
}

check_lengths() {
    written -name '*.c' -o -name '*.h' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt |
        xargs awk '
            FNR == 501 { print FILENAME ":501: a file has at most 500 lines" }'
}

check_headers_stand_alone() {
    local header complaint
    find -H "${code_rooms[@]}" -type f -name '*.h' | sort | while read -r header; do
        complaint=$("$compiler" -std=c11 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -DCP_REAL_BITS=64 -I. \
            -include "$header" -fsyntax-only -x c /dev/null 2>&1) ||
            echo "$header:1: does not compile alone: $(echo "$complaint" | grep -m1 error)"
    done
}

violations=$(
    check_includes
    check_flags
    check_lengths
    bash "$here/links.sh" .
    if [ -n "$compiler" ]; then check_headers_stand_alone; fi
)
[ -z "$violations" ] && exit 0
echo "$violations"
exit 1
