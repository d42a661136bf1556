#!/usr/bin/env bash
# faults: the table, and that each of its names is one that --fault takes.
. "$(dirname "$0")/support.sh"

expect 0 'label_shift: ' cpeq faults
printed 'rolled: '
printed 'https://'
sed -n '/^```$/,/^```$/p' "$root/docs/decisions.md" | sed '1d;$d' >documented
cp "$work/.out" table
check 'docs/decisions.md has the table as it is printed' diff -u documented table
expect 0 '"decisions"' cpeq faults --json
expect 0 'loss_count=per_rank' cpeq faults -q
cp "$work/.out" names
check 'all are names' bash -c '! grep -qvE "^[a-z_]+=[a-z0-9_]+$" names'
check 'many of them' [ "$(wc -l <names)" -gt 40 ]
# Each is caught where it shows: a difference is 1, tokens that are missing are 2. Sanitizers look for other things, and
# see each value in the test of the rung below.
every=${CPEQ_SANITIZED:+p;n;n;n;n}
some() { sed -n "${every:-p}" "$1"; }
while read -r fault status fixture options; do
    # shellcheck disable=SC2086 # options are words
    expect "$status" '' cpeq verify "$golden/$fixture.h5" $options --fault "$fault" -q
done < <(some "$root/tests/cli/faults_caught.txt")
check 'every name is among those' diff -u names <(cut -d' ' -f1 "$root/tests/cli/faults_caught.txt")
# Where a value is said to be the same as right there is a batch in which it is, and what always shows is on no such list.
while read -r fault fixture options; do
    # shellcheck disable=SC2086 # options are words
    expect 0 '' cpeq verify "$golden/$fixture.h5" $options --fault "$fault" -q
done < <(some "$root/tests/cli/faults_unseen.txt")
sed -n 's/^    \([a-z_]*=[a-z_0-9]*\), .*/\1/p' table | sort >same
check 'every one of the list is among those' diff -u same <(cut -d' ' -f1 "$root/tests/cli/faults_unseen.txt" | sort)
# A suite of one case cannot show everything, and says what.
expect 1 'window=dropped: no case of this suite shows it' cpeq faults --coverage "$golden/llama/len4.h5"
printed 'show nowhere'
expect 1 '"missing"' cpeq faults --coverage "$golden/llama/len4.h5" --json --write written.def
check 'the table is written' grep -q '^CP_SHOWN("loss_count", "per_rank", ' written.def
cp written.def old.def
limited() { (ulimit -f 1 && cpeq "$@"); }
stays old.def written.def limited faults --coverage "$golden/llama/len4.h5" --write written.def -q
expect 3 'needs --coverage SUITE' cpeq faults --write written.def
expect 2 '' cpeq faults --coverage "$work"
if [ -z "${CPEQ_SANITIZED:-}" ]; then # one such survey is enough there
    expect 4 'cannot be written' cpeq faults --coverage "$golden/llama/len4.h5" --write /nowhere/written.def
fi
finish
