#!/usr/bin/env bash
# reports: docs/reports.md and the table of faults say the same.
. "$(dirname "$0")/support.sh"

document=$root/docs/reports.md
expect 0 '' cpeq faults -q
sort "$work/.out" >known
expect 0 'reported: ' cpeq faults
cp "$work/.out" table

# "decision=value address", a line each: of the table, and of the rows of the document above what is outside.
awk '/^[a-z_]+: /   { decision = $1 }
     /^    [a-z_0-9]+( \(right\))?: / { value = $1 }
     $1 == "reported:" { print substr(decision, 1, length(decision) - 1) "=" substr(value, 1, length(value) - 1), $2 }' \
    table | sort >told
sed '/^## Outside/,$d' "$document" | grep '^| \[' | while IFS='|' read -r _ reports _ faults _; do
    for fault in $(grep -oE '[a-z_]+=[a-z_0-9]+' <<<"$faults"); do
        grep -oE 'https://[^)]+' <<<"$reports" | sed "s/^/$fault /"
    done
done | sort >documented
check 'there are many' [ "$(wc -l <told)" -gt 50 ]
check 'docs/reports.md has the reports of the table, each with its fault' diff -u documented told

# Elsewhere it names nothing that is unknown.
grep -oE '`[a-z_]+=[a-z_0-9]+`' "$document" | tr -d '`' | sort -u >named
check 'every fault of docs/reports.md is known' diff <(comm -23 named known) /dev/null
sed -n 's/^\([a-z_]*\): .*/`\1`/p' table | sort >decisions
grep -oE '`[a-z_]+`' "$document" | sort -u >named
check 'every decision of docs/reports.md is known' diff <(comm -23 named decisions) /dev/null
finish
