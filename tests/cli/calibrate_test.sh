#!/usr/bin/env bash
# Limits that are measured: by replicates, kept in a fixture; by control runs, kept in a file. Usage, refusals, verdicts.
. "$(dirname "$0")/support.sh"
cp "$golden/llama/full7.h5" .
dump=$dumps/whole.h5

# ---- control runs: what every build can do. Dumps that differ by what --seed draws are made where there is an engine.
refuse 'expected at least 8 control runs, found 1' cpeq calibrate --from full7.h5 "$dump"
refuse "expected -o FILE: limits are not kept in $dump" cpeq calibrate --from "$dump" "$dump"
refuse 'a fixture itself' cpeq calibrate --from full7.h5 --fixture full7.h5 "$dump"
refuse 'missing.h5' cpeq calibrate --from missing.h5 "$dump"
refuse '--output: only with --from' cpeq calibrate full7.h5 -o limits.h5
eight=("$dump" "$dump" "$dump" "$dump" "$dump" "$dump" "$dump" "$dump")
one_sentence 2 'have the same errors' cpeq calibrate --from full7.h5 "${eight[@]}" -o limits.h5
refuse 'is the input' cpeq calibrate --from full7.h5 "${eight[@]}" -o full7.h5
refuse 'text.h5' cpeq diff full7.h5 "$dump" --limits text.h5
refuse 'expected "limits", found "fixture"' cpeq diff full7.h5 "$dump" --limits full7.h5
refuse '--limits: not with --rtol or --atol' cpeq diff full7.h5 "$dump" --limits limits.h5 --atol 1
check 'nothing is written' no_such_file limits.h5

if ! cpeq calibrate --help | grep -q -e --replicates; then
    refuse 'expected --from TRUTH' cpeq calibrate full7.h5
    finish
fi

# ---- replicates
for value in 23 0 -1 x ''; do refuse '--replicates:' cpeq calibrate full7.h5 --replicates "$value"; done
refuse '--seed:' cpeq calibrate full7.h5 --seed -1
refuse "--dtype: no 'float64'" cpeq calibrate full7.h5 --dtype float64
refuse '--seed: not with --from' cpeq calibrate --from full7.h5 "$dump" --seed 1
refuse 'expected at least one FIXTURE or DIR' cpeq calibrate
refuse "'nowhere': cannot be read" cpeq calibrate nowhere
mkdir empty
refuse 'empty: holds no fixture' cpeq calibrate empty
refuse 'kind: expected "fixture"' cpeq calibrate "$dump"
expect 0 'full7.h5: float32, 24 replicates; errors up to' cpeq calibrate full7.h5 --replicates 24 --seed 5 --dtype float32
expect 0 'float32 from 24 replicates' cpeq info full7.h5
expect 0 'loss: errors up to' cpeq info full7.h5 -v
cp full7.h5 once.h5
limited() { (ulimit -f 8 && cpeq "$@"); }
stays once.h5 full7.h5 limited calibrate full7.h5 --replicates 24 --dtype float32
expect 0 '' cpeq calibrate full7.h5 --replicates 24 --seed 5 --dtype float32 -q
check 'the same seed gives the same bytes' cmp -s once.h5 full7.h5
expect 0 '"rule": "replicates"' cpeq calibrate full7.h5 --replicates 24 --dtype float32 --json
check 'another seed gives others' bash -c '! cmp -s once.h5 full7.h5'
expect 0 '"limits": [' cpeq info full7.h5 --json
expect 0 '1 same' cpeq verify full7.h5 --dtype float32 --cp 2 -q

# ---- control runs: unsharded runs that sum in another order
cpeq make llama --left-pad 7,6,5,4,3 --length 7 -o rows.h5 -q
for form in dense block; do
    for micro in 1 2 3 4; do
        cpeq run rows.h5 --dtype float32 --attention "$form" --micro "$micro" -o "run-$form-$micro.h5" -q
    done
done
cpeq run rows.h5 --dtype float32 --dp 2 --per-rank -o groups -q
cpeq run rows.h5 -o truth.h5 -q
cpeq run rows.h5 --dtype float32 --cp 2 --layout zigzag -o sharded.h5 -q
cpeq run rows.h5 --dtype float32 --cp 2 --fault label_shift=shard -o wrong.h5 -q
expect 0 'limits.h5: float32, 8 control runs; errors up to' cpeq calibrate --from truth.h5 --fixture rows.h5 run-*.h5 -o limits.h5
expect 0 'self-made truth: consistency only' cpeq calibrate --from truth.h5 run-*.h5 -o padded.h5
expect 0 'groups-8.h5: float32, 8 control runs' cpeq calibrate --from rows.h5 run-{dense,block}-{1,3,4}.h5 run-dense-2.h5 groups -o groups-8.h5
one_sentence 3 'ran on 2 ranks; control runs are unsharded' cpeq calibrate --from truth.h5 sharded.h5 run-*.h5 -o no.h5
refuse 'is float64, and the runs before it are float32' cpeq calibrate --from truth.h5 run-*.h5 truth.h5 -o no.h5
one_sentence 2 'makes no limits' cpeq calibrate --from full7.h5 run-*.h5 -o no.h5
check 'nothing is written' no_such_file no.h5
expect 0 'from 8 control runs' cpeq info limits.h5
printed 'self-made truth: consistency only'
expect 0 'float32, limits: 8 control runs;' cpeq diff truth.h5 sharded.h5 --limits limits.h5 --fixture rows.h5
printed 'note: self-made truth: consistency only'
echo '[{"expected": "truth.h5", "fixture": "rows.h5", "dump": "sharded.h5", "limits": "limits.h5"}]' >suite.json
expect 0 'limits: 8 control runs' cpeq gate suite.json
expect 1 'limits: 8 control runs' cpeq diff rows.h5 wrong.h5 --limits limits.h5
expect 2 'limits.h5 is of another fixture' cpeq diff full7.h5 "$dump" --limits limits.h5
expect 0 'rows.h5: float32, 8 control runs' cpeq calibrate --from rows.h5 run-*.h5
expect 0 'float32, limits: 8 control runs;' cpeq diff rows.h5 sharded.h5
finish
