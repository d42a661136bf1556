#!/usr/bin/env bash
# exchanges: what the documents draw is so, and the lines that show a mistake show it.
. "$(dirname "$0")/support.sh"

document=$root/docs/exchanges.md
ln -s "$root/fixtures" fixtures
packed=fixtures/golden/llama/packed16.h5

while read -ra line; do
    expect 1 '' "${line[@]}"
done < <(sed -n 's/^    \(cpeq verify .* --fault .*\)/\1/p' "$document" "$root/docs/reports.md")
check 'many lines' [ "$passed" -gt 40 ]

# The table of layouts: what each rank holds, and its pairs of a query and a key.
grep -E '^(contiguous|zigzag|striped)[:0-9]* +0 ' "$document" >layouts
check 'four layouts' [ "$(wc -l <layouts)" -eq 4 ]
while read -r layout table; do
    expect 0 '' cpeq info $packed --cp 4 --layout "$layout"
    sed -n 's/^  ranks  *//p; t end; s/^  row 0  *//p; :end' .out | tail -n 1 | awk '
        /[|]/ { while (length(cuts) < 16) cuts = cuts int(length(cuts) / 4); $0 = cuts }
        { for (g = 0; g < 16; g++) {
              r = substr($0, g + 1, 1); work[r] += g + 1; tokens[r] = tokens[r] " " g }
          print tokens[0] tokens[1] tokens[2] tokens[3], work[0], work[1], work[2], work[3] }' |
        tr -s ' ' | sed 's/^ //' >drawn
    check "the row of $layout" diff <(tr -s ' ' <<<"$table") drawn
done <layouts

# What info is said to print: each line below it.
while read -r line; do
    case $line in
    '$ cpeq info '*) read -ra words <<<"${line#?}"; expect 0 "" "${words[@]}" ;;
    row* | ranks* | targets*) check "info prints '$line'" grep -qF -e "$line" .out ;;
    esac
done < <(grep -E '^(\$ cpeq|  (row|ranks|targets)) ' "$document")

# The documents of one row, zigzagged each by itself.
expect 0 '' cpeq info $packed --cp 4 --layout per_document
awk '$1 == "row" { split($3, mark, "") } $1 == "ranks" { n = split($2, rank, "") }
    END { for (g = 1; g <= n; g++) {
              if (mark[g] != "+" && mark[g] != last) { last = mark[g]; count = 0 }
              held[rank[g]] = held[rank[g]] " " (mark[g] == "+" ? "." : mark[g] count++) }
          for (r = 0; r < 4; r++) print "rank " r held[r] }' .out >drawn
check 'the documents, zigzagged' diff <(grep -E '^rank [0-3] +a' "$document" | tr -s ' ') drawn
finish
