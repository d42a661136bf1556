#!/usr/bin/env bash
# gate: suites and pairs of folders, what is missing or too many, known failures, and the same answer at any speed.
. "$(dirname "$0")/support.sh"

mkdir -p f/llama d/llama
cp "$golden"/llama/{full7,full8}.h5 f/llama
cp -r "$dumps/ranks" d/llama/full7
cp "$dumps/label_shift.h5" shift.h5

# Two folders.
expect 2 '2 dumps: 1 same, 0 different, 1 missing' cpeq gate f d
printed 'd/llama/full8: there is no such dump'
rm f/llama/full8.h5
expect 0 '1 dump: 1 same, 0 different' cpeq gate f d
printed 'llama/full7  llama/full7   2  ulysses   contiguous  float64  '
expect 0 '1 same' cpeq gate f/llama d/llama/
cp "$dumps/whole.h5" d/llama/stray.h5
cp -r "$dumps/ranks" d/llama/lost
expect 2 '3 dumps: 1 same, 0 different, 2 extra' cpeq gate f d
printed 'd/llama/lost: a dump that belongs to no fixture'
printed 'd/llama/stray.h5: a dump that belongs to no fixture'
expect 0 '1 same' cpeq gate f d --filter '*/full7'
expect 2 '0 dumps' cpeq gate f d --filter 'nothing'
rm -r d/llama/stray.h5 d/llama/lost d/llama/full7/rank-0001.h5
expect 2 '1 not comparable' cpeq gate f d
printed 'rank 1 of 2 is missing'
head -c 2000 "$dumps/whole.h5" >d/llama/full7.h5
expect 3 '2 dumps: 0 same, 0 different, 1 extra, 1 error' cpeq gate f d # the file comes before the folder
mkdir -p empty
expect 2 '0 dumps: 0 same' cpeq gate empty empty
cp "$dumps/whole.h5" d/llama/full7.h5
rm -r d/llama/full7
expect 0 '1 same' cpeq gate f d

# A suite; paths begin where it lies.
suite() { mkdir -p suites && cat >suites/suite.json; }
suite <<EOF
[{"fixtures": "../f", "dumps": "../d"},
 {"name": "ranks", "fixture": "../f/llama/full7.h5", "dump": ["$dumps/ranks/rank-*.h5"]},
 {"name": "logits alone", "fixture": "../f/llama/full7.h5", "dump": "../shift.h5", "only": "logits"},
 {"name": "two dumps", "expected": "$dumps/whole.h5", "fixture": "../f/llama/full7.h5", "dump": "$dumps/ranks"},
 {"name": "loose", "fixture": "../f/llama/full7.h5", "dump": "../s*.h5", "atol": 100},
 {"name": "shifted", "fixture": "../f/llama/full7.h5", "dump": "../shift.h5",
  "expect": "different", "because": "labels are shifted after the cut", "says": "token_loss: "}]
EOF
expect 0 '6 dumps: 5 same, 1 different; 1 known failure, 0 of them not as expected' cpeq gate suites/suite.json
printed 'different, known'
printed 'known: labels are shifted after the cut; token_loss: '
printed 'only logits'
printed 'user limits'
cp "$work/.out" at_once
expect 0 '5 same' cpeq gate suites/suite.json -j 1
check 'the same table, one after the other' cmp -s "$work/.out" at_once
expect 0 '5 same' cpeq gate suites/suite.json --jobs 64 -q
check 'one line' [ "$(wc -l <"$work/.out")" -eq 1 ]
expect 0 'shifted: DIFFERENT' cpeq gate suites/suite.json -v
printed 'next: first difference in execution order: token_loss'
expect 0 '"kind": "gate"' cpeq gate suites/suite.json --json --junit r.xml --markdown r.md --html r.html
cp "$work/.out" r.json
check 'JUnit has the known failure' grep -q '<skipped message="different: known: labels' r.xml
check 'Markdown has it too' grep -q '^### ✅ 6 dumps: 5 same' r.md
check 'the page has each judgement' [ "$(grep -o '"kind": "diff"' r.html | wc -l)" -eq 6 ]
if command -v perl >/dev/null; then
    check 'JSON and page fit the schema' perl "$root/tests/cli/schema.pl" "$root/docs/report.schema.json" r.json r.html
fi

# Known failures that are not what they were, and dumps that must not be there.
known() { suite <<<"[{\"fixture\": \"../f/llama/full7.h5\", \"dump\": $1, \"because\": \"why\", $2}]"; }
known '"../shift.h5"' '"expect": "different", "says": "logits: "'
expect 1 'different, not the known one' cpeq gate suites/suite.json
known '"../d/llama/full7.h5"' '"expect": "different"'
expect 1 'same, expected different' cpeq gate suites/suite.json
known '"../shift.h5"' '"expect": "not comparable"'
expect 1 'different, expected not comparable' cpeq gate suites/suite.json
known '"../shift.h5"' '"expect": "missing"'
expect 1 'different, expected missing' cpeq gate suites/suite.json
known '"../n*.h5"' '"expect": "different"'
expect 2 'missing, expected different' cpeq gate suites/suite.json
known '"../n*.h5"' '"expect": "missing"'
expect 2 'missing, known' cpeq gate suites/suite.json # as expected, but nothing was judged

suite <<<'[{"fixture": "../f/llama/full7.h5", "dump": "../d/llama/f*", "count": 2}]'
expect 2 'llama/f*: 1 dump is there, expected 2' cpeq gate suites/suite.json

# The worst of several.
suite <<EOF
[{"name": "a", "fixture": "../f/llama/full7.h5", "dump": "../shift.h5"},
 {"name": "b", "fixture": "../f/llama/full7.h5", "dump": "../none"},
 {"name": "c", "fixture": "../none.h5", "dump": "../shift.h5"}]
EOF
expect 3 '3 dumps: 0 same, 1 different, 1 missing, 1 error' cpeq gate suites/suite.json
expect 2 '' cpeq gate suites/suite.json --filter '[ab]'
expect 1 '' cpeq gate suites/suite.json --filter a
suite <<<'[]'
expect 2 '0 dumps' cpeq gate suites/suite.json
expect 4 '/dev/full: cannot be written' cpeq gate suites/suite.json --junit /dev/full

# docs/gate.md shows the files of examples/gate as they are.
blocks=0
while IFS= read -r -d '' block; do
    blocks=$((blocks + 1))
    found=no
    for file in "$root"/examples/gate/*.*; do
        if [[ $(cat "$file") == *"$block"* ]]; then found=yes; fi
    done
    check "a file of examples/gate holds block $blocks of docs/gate.md: ${block:0:60}" [ $found = yes ]
done < <(awk '/^# How a dump/ { exit }
              /^```$/ && inside { printf "%s%c", text, 0; inside = 0; next }
              /^```(python|json|bash|yaml)$/ { inside = 1; text = ""; next }
              /^```$/ { other = !other }
              inside { text = text (text == "" ? "" : "\n") $0 }' "$root/docs/gate.md")
check 'all five' [ $blocks -eq 5 ]
suite <"$root/examples/gate/suite.json"
expect 3 'fixtures/golden/llama_h24: cannot be read' cpeq gate suites/suite.json

# What is no suite.
refuse 'expected a SUITE, or two folders, FIXTURES and DUMPS, found 0 operands' cpeq gate
refuse 'd: one folder; a suite is a JSON file, or two folders' cpeq gate d
refuse 'suites/suite.json: expected a folder, found a file' cpeq gate suites/suite.json d
refuse 'none.json: ' cpeq gate none.json
refuse '--jobs:' cpeq gate f d --jobs 0
suite <<<'[{"fixture": "f.h5", "dump": "d.h5"},'
refuse 'suites/suite.json: ' cpeq gate suites/suite.json
suite <<<'[{"fixture": "f.h5", "dump": "d.h5", "tolerance": 1}]'
refuse 'suites/suite.json: [0].tolerance: no such property; there are name, fixture,' cpeq gate suites/suite.json
finish
