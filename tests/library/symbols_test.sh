#!/usr/bin/env bash
# symbols_test.sh SHARED ARCHIVE HEADER: both libraries define what the header declares, and nothing else.
set -euo pipefail
declared=$(grep -o 'cpeq_[a-z_]*(' "$3" | tr -d '(' | sort -u)
case $(nm -D "$1") in *__asan* | *__tsan* | *__ubsan*) sanitized=yes ;; *) sanitized=no ;; esac
for names in "$(nm -D --defined-only "$1")" "$(nm -g --defined-only "$2" | grep ' [A-Z] ')"; do
    defined=$(echo "$names" | awk '{ print $NF }' | grep -v '^__odr_asan' | sort -u)
    diff <(echo "$declared") <(echo "$defined") || { echo "left: declared, right: defined" && exit 1; }
done
[ "$(echo "$declared" | wc -l)" -gt 15 ]
# HDF5 is what it stands on; a sanitizer brings libraries of its own.
others=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -Ev '^(libhdf5|libm\.|libc\.|ld-linux)' || true)
[ -z "$others" ] || [ $sanitized = yes ] || { echo "needs $others" && exit 1; }
