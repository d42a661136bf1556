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
while read -r fault; do
    check "--fault $fault is taken" bash -c '"$1" verify "$2" --cp 2 --fault "$3" -q >/dev/null; [ $? -le 2 ]' - \
        "$program" "$golden/llama/packed7.h5" "$fault"
done <names
finish
