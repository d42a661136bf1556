#!/usr/bin/env bash
# Fixtures of an attention function alone.
. "$(dirname "$0")/support.sh"
attention=$root/fixtures/attention

expect 0 '' cpeq info "$attention/sink16.h5" "$attention/softcap12.h5" "$attention/both_ways_right12.h5"
printed 'kind           attention fixture'
printed 'q              float32 [2,16,4,8]'
printed 'sink           float32 [4]'
printed 'attention      causal, scale 0.353553'
printed 'window         5'
printed 'attention      causal, scale 0.75, softcap 2'
printed 'attention      not causal, scale 0.353553'
printed 'row 2          aaa.........'
not_printed 'target'
expect 0 '"kind": "attention fixture"' cpeq info --json "$attention/chunk16.h5"
printed '"chunk": 5'

refuse 'this is a fixture, expected a dump' cpeq diff "$attention/full12.h5" "$attention/full12.h5"
expect 2 'whole.h5: is of a training step, expected kind "attention"' cpeq diff "$attention/full12.h5" "$dumps/whole.h5"
if [ "$("$program" help | grep -c ' verify ')" -gt 0 ]; then
    refuse '--mask: '"$attention/left12.h5"' holds no layers' cpeq info --quiet --mask 0 "$attention/left12.h5"
    expect 0 ', 0 different, ' cpeq verify -q "$attention" --cp 2,3 --exchange all --layout contiguous,zigzag
    expect 0 ', 0 different, ' cpeq verify -q "$attention" --cp 4 --exchange all --layout striped --dtype float32 --attention dense,varlen
    printed 'the reference attends causally, and causal is 0'
    expect 1 ', 11 different, 2 refused' cpeq verify -q "$attention" --cp 2 --exchange ring --fault causal=local
    expect 2 'kind "attention" runs in one step, in one group, over threads' cpeq verify "$attention" --cp 2 --dp 2
    refuse 'kind "attention" holds no model to run' cpeq run "$attention/full12.h5" -o out.h5
    refuse 'kind "attention" holds no model to export' cpeq export "$attention/full12.h5" -o folder
fi
finish
