# Sourced by every test of the command line:   NAME.sh CPEQ LOG
#
# CPEQ is the program, LOG a file that is written anew: every command with all that it printed. From the logs of all
# tests said.pl finds the options and the sentences that no test has met.
set -u

program=$1 log=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
golden=$root/fixtures/golden
dumps=$root/tests/cli/dumps
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 4
mkdir -p "$(dirname "$log")"
: >"$log"
passed=0 failed=0

cpeq() { "$program" "$@"; }

fail() {
    failed=$((failed + 1))
    printf 'FAILED %s:%s: %s\n' "$(basename "$0")" "${BASH_LINENO[1]}" "$1"
    sed 's/^/    | /' "$work/.out" "$work/.err" 2>/dev/null | head -n 30
}

# expect STATUS WORDS COMMAND...: the status, and WORDS (or nothing, '') in what is printed.
expect() {
    local status=$1 words=$2 found
    shift 2
    "$@" >"$work/.out" 2>"$work/.err" </dev/null
    found=$?
    { echo "\$ $*"; cat "$work/.out" "$work/.err"; } >>"$log"
    if [ "$found" -ne "$status" ]; then
        fail "$*: status $found, expected $status"
    elif [ -n "$words" ] && ! cat "$work/.out" "$work/.err" | grep -qF -e "$words"; then
        fail "$*: nothing says '$words'"
    else
        passed=$((passed + 1))
    fi
}

# refuse WORDS COMMAND...: bad usage or bad input, told in one line on standard error and nothing else.
refuse() { one_sentence 3 "$@"; }
one_sentence() {
    local status=$1 words=$2 before=$failed
    shift 2
    expect "$status" "$words" "$@"
    if [ "$failed" -ne "$before" ]; then return; fi
    if [ "$(wc -l <"$work/.err")" -ne 1 ] || [ -s "$work/.out" ] || ! grep -q '^cpeq' "$work/.err"; then
        fail "$*: expected one sentence on standard error and nothing on standard output"
    fi
}

# Of the last command.
printed() { check "printed '$1'" grep -qF -e "$1" "$work/.out"; }
not_printed() { check "did not print '$1'" bash -c '! grep -qF -e "$1" "$2"' - "$1" "$work/.out"; }

# check WHAT COMMAND...: any other condition.
check() {
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else fail "expected: $what"; fi
}

no_such_file() { ! ls -d "$@" >/dev/null 2>&1; }

# stays OLD TARGET COMMAND...: it cannot write TARGET, which still is as OLD, with nothing beside it.
stays() {
    local old=$1 target=$2
    shift 2
    expect 4 cannot "$@"
    check "$*: what was there stays" cmp -s "$old" "$target"
    check "$*: nothing beside it" no_such_file "$target".*.tmp
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}
