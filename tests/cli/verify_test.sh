#!/usr/bin/env bash
# verify: lists, folders, filters, reports, faults, and the worst status of all.
. "$(dirname "$0")/support.sh"

expect 0 '3 runs: 3 same, 0 different' cpeq verify "$golden/llama/packed7.h5" --cp 1,2,4
printed 'llama/packed7   4  ulysses   contiguous  float64  block'
expect 0 '4 runs: 4 same' cpeq verify "$golden/llama/packed7.h5" --cp 1,2 --dtype float64,float32
expect 0 '2 runs: 2 same' cpeq verify "$golden/llama/packed7.h5" --cp 2 --dtype float32,float64 --exchange ulysses \
    --layout contiguous --attention dense
expect 0 ' same, 0 different' cpeq verify "$golden/llama/packed7.h5" --exchange all --layout all --attention all
expect 0 '10 runs: 10 same' cpeq verify "$golden/llama/packed7.h5" --cp 2,4 --layout all
printed 'uneven'
printed 'per_document'
expect 0 '4 runs: 4 same' cpeq verify "$golden/llama/packed7.h5" --cp 2 --layout striped:2,uneven:7,0,zigzag,uneven:3:4
printed 'uneven:7:0'
expect 0 '1 run: 1 same' cpeq verify "$golden/llama/left7.h5" --cp 2 --dp 2 --micro 2
printed ' 2, dp 2, micro 2  ulysses '
long=uneven:7$(printf ':0%.0s' $(seq 19))
expect 0 "$long  float64" cpeq verify "$golden/llama/full7.h5" --cp 20 --exchange ring --layout "$long"
expect 2 '2 refused' cpeq verify "$golden/llama/packed7.h5" --cp 2 --layout uneven:3:3,uneven:7
printed 'layout uneven:3:3: 6 tokens in all, expected the row'
printed 'layout uneven:7: tokens of 1 ranks, expected those of 2'
expect 3 'twice in the list' cpeq verify "$golden/llama/packed7.h5" --layout striped,striped:1
expect 0 '3 runs: 3 same' cpeq verify "$golden/llama/packed7.h5" --cp 4 --exchange usp,usp:2x2,usp:2x2:ring-inner
printed 'usp:2x2:ring-inner'
expect 1 'different' cpeq verify "$golden/llama/packed7.h5" --cp 4 --exchange usp:2x2 --fault gqa_map=modulo
expect 0 'mesh.h5' cpeq run "$golden/llama/packed7.h5" --cp 4 --exchange usp -o mesh.h5
expect 0 'usp:4x1' cpeq info mesh.h5
expect 0 'in each of 4 files' cpeq run "$golden/llama/packed7.h5" --cp 4 --exchange usp:2x2:ring-inner --per-rank -o mesh
expect 0 'SAME' cpeq diff "$golden/llama/packed7.h5" mesh
expect 0 '1 refused' cpeq verify "$golden/llama/packed7.h5" --exchange all --cp 2
printed 'exchange local: one rank holds every token'
expect 0 '1 run: 1 same' cpeq verify "$golden/llama/packed7.h5" "$golden/llama/packed7.h5"

# Folders in order of name, names by the last two parts of the path.
expect 0 'llama/packed16' cpeq verify "$golden" --filter 'llama/packed*'
check 'in order' bash -c 'grep -o "^llama/packed[0-9]*" "$1" | sort -c' - "$work/.out"
check 'nothing else' bash -c '! grep -E "^(qwen|llama/full)" "$1"' - "$work/.out"
expect 0 'runs: ' cpeq verify "$golden/llama_l1" -q
check 'one line' [ "$(wc -l <"$work/.out")" -eq 1 ]
expect 2 '0 runs' cpeq verify "$golden" --filter 'no/such*'
expect 3 'no_such_folder' cpeq verify no_such_folder

# A fault is caught, and -v shows the whole judgement; where it changes nothing all is the same.
expect 1 '0 same, 1 different' cpeq verify "$golden/llama/packed7.h5" --cp 2 --fault label_shift=shard
expect 1 'DIFFERENT' cpeq verify "$golden/llama/packed7.h5" --cp 2 --fault label_shift=shard -v
printed 'next:'
expect 0 '1 same' cpeq verify "$golden/llama/full8.h5" --cp 2 --fault auto_pad=counted
expect 2 'not comparable' cpeq verify "$golden/llama/full8.h5" --cp 2 --fault dump_order=last_missing
expect 0 '1 same' cpeq verify "$golden/llama/packed7.h5" --cp 2 --fault label_shift=shard --atol 100 --rtol 0

# The worst of several: a broken file beside good ones.
mkdir -p mixed/deeper
cp "$golden/llama/full7.h5" mixed/deeper/good.h5
head -c 2000 "$golden/llama/full7.h5" >mixed/broken.h5
echo text >mixed/notes.txt
cp mixed/broken.h5 mixed/.hidden.h5
expect 3 'broken.h5' cpeq verify mixed
printed '1 run: 1 same'

# Reports.
expect 1 '"verdict": "different"' cpeq verify "$golden/llama/packed7.h5" --cp 1,2 --fault label_shift=twice --json
printed '"schema_version": 1'
expect 1 '1 different, 1 refused' cpeq verify "$golden/llama/packed7.h5" --cp 2,3 --fault label_shift=twice \
    --junit r.xml --markdown r.md --html r.html
check 'JUnit has the failure' grep -q '<failure' r.xml
check 'JUnit has what was refused' grep -q '<skipped' r.xml
check 'Markdown has both' bash -c 'grep -q different r.md && grep -q refused r.md'
check 'the page has both' grep -q '"summary": "2 runs: 0 same, 1 different, 1 refused' r.html
expect 4 '/dev/full: cannot be written' cpeq verify "$golden/llama/packed7.h5" --junit /dev/full
finish
