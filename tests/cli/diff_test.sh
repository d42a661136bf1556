#!/usr/bin/env bash
# diff and info on the dumps of dumps/: what README.md there says of them.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/full7.h5

expect 0 'SAME' cpeq diff "$fixture" "$dumps/whole.h5"
printed '24 same'
expect 0 'SAME' cpeq diff "$fixture" "$dumps/ranks"
expect 0 'SAME' cpeq diff "$fixture" "$dumps/ranks/rank-0001.h5" "$dumps/ranks/rank-0000.h5"
expect 0 'no batch: padding judged too' cpeq diff "$dumps/whole.h5" "$dumps/ranks"
expect 0 'SAME' cpeq diff "$dumps/ranks" "$dumps/whole.h5" --fixture "$fixture"
not_printed 'no batch'
expect 1 'DIFFERENT' cpeq diff "$fixture" "$dumps/label_shift.h5"
printed 'next:'
check 'at most 25 lines' [ "$(wc -l <"$work/.out")" -le 25 ]
expect 2 'rank 1 of 2 is missing' cpeq diff "$fixture" "$dumps/ranks/rank-0000.h5"
printed 'NOT COMPARABLE'
expect 2 'NOT COMPARABLE' cpeq diff "$golden/llama/full8.h5" "$dumps/whole.h5"

# Options.
expect 1 'different' cpeq diff "$fixture" "$dumps/label_shift.h5" -q
check 'one word' [ "$(cat "$work/.out")" = different ]
expect 0 'SAME' cpeq diff "$fixture" "$dumps/label_shift.h5" --only logits
expect 2 'NOT COMPARABLE' cpeq diff "$fixture" "$dumps/whole.h5" --only 'nothing*'
expect 0 'user limits' cpeq diff "$fixture" "$dumps/label_shift.h5" --atol 100
expect 1 'user limits' cpeq diff "$fixture" "$dumps/label_shift.h5" --rtol 1e-9 --atol 0
expect 0 'model.norm.weight' cpeq diff "$fixture" "$dumps/whole.h5" --all
expect 0 'model.norm.weight' cpeq diff "$fixture" "$dumps/whole.h5" --verbose
expect 0 'SAME' cpeq diff "$fixture" "$dumps/whole.h5"
not_printed 'model.norm.weight'
expect 1 '"different"' cpeq diff "$fixture" "$dumps/label_shift.h5" --json
printed '"schema_version": 1'
expect 2 '"not comparable"' cpeq diff "$fixture" "$dumps/ranks/rank-0000.h5" --json
printed 'rank 1 of 2 is missing'
escape=$(printf '\033[')
expect 1 "$escape" cpeq diff "$fixture" "$dumps/label_shift.h5" --color always
expect 1 'DIFFERENT' cpeq diff "$fixture" "$dumps/label_shift.h5" --color never
not_printed "$escape"
expect 1 'DIFFERENT' cpeq diff "$fixture" "$dumps/label_shift.h5" --color auto
not_printed "$escape"

# Reports agree with the status.
expect 1 'DIFFERENT' cpeq diff "$fixture" "$dumps/label_shift.h5" --markdown r.md --junit r.xml --html r.html
check 'Markdown says so' grep -qi 'different' r.md
check 'the page says so' grep -q '"verdict": "different"' r.html
check 'JUnit says so' grep -q '<failure' r.xml
expect 2 'NOT COMPARABLE' cpeq diff "$fixture" "$dumps/ranks/rank-0000.h5" --junit r.xml
check 'JUnit says so' grep -q '<error' r.xml

# info.
expect 0 'aaaa|aaa+' cpeq info "$fixture" --cp 2 --layout contiguous
expect 0 'ranks          00111100' cpeq info "$fixture" --cp 2 --layout zigzag
printed 'aaaaaaa+'
printed '(2 ranks, zigzag), +: added for the cut'
expect 0 'ranks          01010101' cpeq info "$fixture" --cp 2 --layout striped
expect 0 'ranks          00110011' cpeq info "$fixture" --cp 2 --layout striped:2
expect 0 '  aaaaa|aa' cpeq info "$fixture" --cp 3 --layout uneven:0:5:2
printed '|: cut (3 ranks, uneven:0:5:2)'
expect 0 '5 tokens in all, expected the row' cpeq info "$fixture" --cp 2 --layout uneven:3,2
expect 0 '..|.a|aa|a+' cpeq info "$golden/llama/left7.h5" --cp 4
expect 0 'aaab|bbb+' cpeq info "$golden/llama/packed7.h5" --cp 2
printed '^^ ^|^^'
expect 0 'fixture_id' cpeq info "$fixture" -q
not_printed 'row 0'
expect 0 'grads/model.norm.weight float64 [16]' cpeq info "$fixture" -v
expect 0 '"kind": "fixture"' cpeq info "$fixture" "$dumps/whole.h5" --json
printed '"kind": "dump"'
expect 0 'cp_rank        1' cpeq info "$dumps/ranks/rank-0001.h5"
expect 0 "joined from its ranks' files" cpeq info "$dumps/ranks"
expect 3 'missing.h5' cpeq info missing.h5 "$fixture"
printed 'fixture_id'
finish
