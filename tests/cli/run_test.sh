#!/usr/bin/env bash
# run: what it writes, and how.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/full7.h5

expect 0 'whole.h5: 24 tensors, loss 4.62167993079' cpeq run "$fixture" -o whole.h5
expect 0 'SAME' cpeq diff "$fixture" whole.h5
expect 0 '"loss": 4.62167993079' cpeq run "$fixture" --output json.h5 --json
check 'the same bytes twice' cmp -s whole.h5 json.h5
expect 0 '' cpeq run "$fixture" -o quiet.h5 -q
check 'nothing printed' [ ! -s "$work/.out" ]
expect 0 'grads/model.norm.weight float64 [16]' cpeq run "$fixture" -o verbose.h5 -v
expect 0 'SAME' cpeq diff "$dumps/whole.h5" whole.h5 --fixture "$fixture"

expect 0 'in each of 2 files' cpeq run "$fixture" --cp 2 --exchange ulysses --layout contiguous --attention dense \
    --transport threads --per-rank -o some/new/folder
expect 0 'SAME' cpeq diff "$fixture" some/new/folder
expect 0 'in each of 2 files' cpeq run "$fixture" --cp 2 --per-rank -o some/new/folder
touch some/new/folder/rank-1.h5
refuse 'some/new/folder: holds rank-1.h5, which is of another run' cpeq run "$fixture" --per-rank --cp 2 \
    -o some/new/folder
rm some/new/folder/rank-1.h5
refuse 'some/new/folder: holds rank-0001.h5, which is of another run' cpeq run "$fixture" --per-rank \
    -o some/new/folder
for layout in zigzag striped:2 uneven:0:5:2:0 per_document; do
    rm -r some/new/folder
    expect 0 'in each of 4 files' cpeq run "$fixture" --cp 4 --layout "$layout" --per-rank -o some/new/folder
    expect 0 'SAME' cpeq diff "$fixture" some/new/folder
    expect 0 "layout         $layout" cpeq info some/new/folder
done
expect 0 'float32' cpeq run "$fixture" --cp 2 --dtype float32 -o narrow.h5 -v
expect 0 'float32, calibrated limits (96 replicates)' cpeq diff "$fixture" narrow.h5
expect 0 'trace/layer.0.out' cpeq run "$fixture" --cp 2 --trace -o trace.h5 -v
expect 0 'trace/layer.0.out' cpeq diff "$fixture" trace.h5 --all
expect 0 '' cpeq run "$fixture" --cp 2 --fault loss_count=per_rank -o fault.h5
expect 0 '' cpeq run "$golden/llama/prompt24.h5" --cp 4 --fault loss_count=per_rank -o fault.h5
expect 1 'DIFFERENT' cpeq diff "$golden/llama/prompt24.h5" fault.h5

# Targets that cannot be written: told before anything is computed, and nothing is left.
one_sentence 4 '/dev/full: cannot be written: it is not a regular file' cpeq run "$fixture" -o /dev/full
check '/dev/full is a device still' [ -c /dev/full ]
one_sentence 4 'there is no folder no/such' cpeq run "$fixture" -o no/such/x.h5
long=$(printf '%5000s' x | tr ' ' x)
refuse 'a path of more than 4096 characters' cpeq run "$fixture" -o "$long"
refuse 'a path of more than 4096 characters' cpeq run "$fixture" --per-rank -o "$long"
one_sentence 4 'whole.h5: cannot be made' cpeq run "$fixture" --per-rank -o whole.h5
limited() { (ulimit -f 8 && cpeq "$@"); }
one_sentence 4 'big.h5' limited run "$fixture" -o big.h5
check 'no partial dump' no_such_file big.h5 big.h5.*.tmp
cp whole.h5 old.h5
stays old.h5 whole.h5 limited run "$fixture" -o whole.h5
mkdir -p full
cp whole.h5 full/rank-0001.h5
stays old.h5 full/rank-0001.h5 limited run "$fixture" --cp 2 --per-rank -o full

# A killed process leaves a temporary; the next run takes away those whose process is gone, and only those.
sleep 60 &
alive=$!
dead=$(bash -c 'echo $$')
touch "whole.h5.$alive.tmp" "whole.h5.$dead.tmp" "other.h5.$dead.tmp" "whole.h5.notes.tmp"
expect 0 'whole.h5' cpeq run "$fixture" -o whole.h5
check 'the dead one is gone' no_such_file "whole.h5.$dead.tmp"
check 'the others stay' ls "whole.h5.$alive.tmp" "other.h5.$dead.tmp" "whole.h5.notes.tmp"
kill "$alive"

# A fixture that is none.
refuse 'missing.h5' cpeq run missing.h5 -o x.h5
refuse 'whole.h5' cpeq run whole.h5 -o x.h5
finish
