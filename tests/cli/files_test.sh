#!/usr/bin/env bash
# Files of strangers and targets that cannot be written, as every command meets them.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/full7.h5 dump=$dumps/whole.h5

head -c 2000 "$fixture" >truncated.h5
: >empty.h5
echo '{"model_type": "llama"' >broken.json
echo '{"hidden_size": 16}' >nameless.json
echo 'not HDF5 at all' >text.h5

for command in "info" "diff $fixture" "diff --fixture $fixture $dump"; do
    refuse missing.h5 cpeq $command missing.h5
    refuse truncated.h5 cpeq $command truncated.h5
    refuse empty.h5 cpeq $command empty.h5
    refuse text.h5 cpeq $command text.h5
done
refuse missing.h5 cpeq diff missing.h5 "$dump"

# The library copies as many bytes of a string as the heap says there are. (Sanitizers end such a process their own way.)
if [ -z "${ASAN_OPTIONS-}" ]; then
    cp "$dump" heap.h5
    heap=$(grep -abo -m1 GCOL heap.h5 | head -n 1 | cut -d: -f1)
    printf '\377\377\0' | dd of=heap.h5 bs=1 seek=$((heap + 24)) conv=notrunc status=none
    expect 3 'heap.h5: expected an HDF5 file, found one that is damaged' cpeq info heap.h5
    cpeq diff "$fixture" heap.h5 >log 2>&1 # what the copy spoiled may be found when the reading is over
    status=$?
    check 'a spoiled heap ends with 3 or 4' test $status -eq 3 -o $status -eq 4
    check 'a spoiled heap is told' grep -q 'the HDF5 library does not survive' log
fi
refuse 'a fixture itself' cpeq diff "$fixture" "$dump" --fixture "$fixture"
refuse missing.h5 cpeq diff "$dump" "$dump" --fixture missing.h5
refuse full7.h5 cpeq diff "$fixture" "$fixture"
expect 3 broken.json cpeq info broken.json
expect 3 'nameless.json: model_type: expected the name of a family, found nothing' cpeq info nameless.json

# Reports: written whole or not at all, in place where the target is a device.
expect 0 SAME cpeq diff "$fixture" "$dump" --markdown r.md --junit r.xml
check 'Markdown' grep -q full7 r.md
check 'JUnit' grep -q '<testsuite' r.xml
expect 0 SAME cpeq diff "$fixture" "$dump" --markdown /dev/stdout
expect 4 'no/such/r.md' cpeq diff "$fixture" "$dump" --markdown no/such/r.md
expect 4 '/dev/full: cannot be written: No space left on device' cpeq diff "$fixture" "$dump" --junit /dev/full
check '/dev/full is a device still' [ -c /dev/full ]
to_full() { cpeq "$@" >/dev/full; }
expect 4 'standard output: cannot be written: No space left on device' to_full diff "$fixture" "$dump"
expect 4 'standard output: cannot be written: No space left on device' to_full help
limited() { (ulimit -f 1 && cpeq "$@"); }
expect 4 'cannot be written' limited diff "$fixture" "$dump" --all --junit big.xml
check 'no partial report' no_such_file big.xml big.xml.*.tmp

# Over a file that is there, where the disk is full: what was there stays as it is, and nothing beside it.
seq 2000 >old
for form in junit markdown html; do
    cp old r.$form
    stays old r.$form limited diff "$fixture" "$dump" --all --$form r.$form
done
mkdir fixtures outputs
cp "$fixture" fixtures/full7.h5
cp "$dump" outputs/full7.h5
stays old r.html limited gate fixtures outputs --html r.html
finish
