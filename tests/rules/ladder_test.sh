#!/bin/bash
# ladder_test.sh MODULES CMAKE: a broken rung leaves the rungs above it "Not Run", over a rung without tests too; a
# skipped test is a failed one; a rung that nobody knows is refused.
set -u
modules=$1
cmake=$2
tree=$(mktemp -d "${TMPDIR:-/tmp}/cpeq-ladder-XXXXXX")
trap 'rm -rf "$tree"' EXIT

write_project() {
    cat >"$tree/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(ladder LANGUAGES C)
find_package(PkgConfig REQUIRED)
enable_testing()
include($modules/CpeqTest.cmake)
cpeq_script_test(low RUNG base COMMAND true)
cpeq_script_test(middle RUNG gradients COMMAND ${1})
cpeq_script_test(high RUNG ${2} COMMAND true)
END
    "$cmake" -S "$tree" -B "$tree/build" >"$tree/log" 2>&1
}

run() {
    (cd "$tree/build" && "${cmake%cmake}ctest" 2>&1)
}

fail() {
    printf '%s\n' "$1" "${2-}"
    exit 1
}

write_project true exchanges || fail "no configuration" "$(cat "$tree/log")"
output=$(run) || fail "three tests that succeed fail" "$output"

write_project false exchanges
output=$(run) && fail "a failed test does not count" "$output"
echo "$output" | grep -q 'base.low .*Passed' || fail "the lower rung does not pass" "$output"
echo "$output" | grep -q 'exchanges.high .*Not Run' || fail "the rung above a broken one runs" "$output"

write_project "echo 3 skipped" exchanges
output=$(run) && fail "a skipped test counts as run" "$output"
echo "$output" | grep -q 'exchanges.high .*Not Run' || fail "the rung above a skipped one runs" "$output"

write_project true attic && fail "an unknown rung is accepted"
grep -q "no rung is called 'attic'" "$tree/log" || fail "the unknown rung is not named" "$(cat "$tree/log")"
exit 0
