#!/usr/bin/env bash
# structure_test.sh CPEQ LOG SPOIL: a dump that is wrong in its structure, in each of the ways, ends with its status and
# its sentence, whatever its numbers are.
. "$(dirname "$0")/support.sh"
spoil=$3
fixture=$golden/llama/full7.h5
norm=/grads/model.norm.weight q=/grads/model.layers.0.self_attn.q_proj.weight k=/grads/model.layers.0.self_attn.k_proj.weight

# case STATUS WORDS SPOILING...: of the whole dump.
case_of() {
    local status=$1 words=$2
    shift 2
    cp "$dumps/whole.h5" wrong.h5
    chmod u+w wrong.h5
    "$spoil" wrong.h5 "$@" || fail "spoil $*"
    expect "$status" "$words" cpeq diff "$fixture" wrong.h5
}

# ranks STATUS WORDS FILE SPOILING...: of the dump of two ranks, one of whose files is spoiled.
ranks() {
    local status=$1 words=$2 file=$3
    shift 3
    rm -rf ranks
    cp -r "$dumps/ranks" ranks
    chmod -R u+w ranks
    "$spoil" "ranks/$file" "$@" || fail "spoil $*"
    expect "$status" "$words" cpeq diff "$fixture" ranks
}

case_of 2 'missing from wrong.h5' remove $norm
case_of 2 'no logits' remove /logits
case_of 2 'no loss' remove /loss
case_of 2 'extra: ' add /grads/model.norm.bias 16 1
case_of 2 'shape [15], expected [16]' shape $norm 15 1
case_of 2 'the other way round: name_map can say so' shape $q 16 32
case_of 3 'expected floating-point numbers, found int64' integers $norm 16 1
case_of 2 'shape [0], expected [16]' shape $norm 0 1
case_of 1 'all zero' fill $norm 16 1 0
case_of 1 'not finite' fill $norm 16 1 nan
case_of 1 'not finite' fill $norm 16 1 inf
case_of 2 'is of another fixture' text fixture_id "$(printf '0%.0s' {1..64})"
case_of 3 'expected a dataset, found a group' group /logits
case_of 3 "$norm" group $norm
case_of 3 'external' external $norm /grads/other
case_of 3 'wrong.h5' soft $norm /nowhere
case_of 3 'wrong.h5' cyclic $norm /grads
case_of 3 'wrong.h5' huge $norm
case_of 3 'filter' filter $norm 16 1
case_of 3 'version' number format_version 2
case_of 3 'kind' text kind remark
case_of 2 'declares gradients = "summed"' text gradients summed

# Gradients that are declared None where the truth is not zero.
cp "$dumps/whole.h5" wrong.h5
chmod u+w wrong.h5
"$spoil" wrong.h5 remove $norm
"$spoil" wrong.h5 none model.norm.weight
expect 1 'declared None' cpeq diff "$fixture" wrong.h5

# Only the loss: not comparable, but where one asks for it, and then the verdict says what was not judged.
cp "$dumps/whole.h5" wrong.h5
chmod u+w wrong.h5
for object in /logits /token_loss /grads; do "$spoil" wrong.h5 remove $object; done
expect 2 'the rest is judged where --only asks for it' cpeq diff "$fixture" wrong.h5
expect 0 'not judged, as --only "loss" asks' cpeq diff "$fixture" wrong.h5 --only loss

# Ranks.
ranks 2 'is also in' rank-0001.h5 index 0 1 2 3
ranks 2 'token 6' rank-0001.h5 index 4 5 -1 -1
ranks 2 'rank-0001.h5' rank-0001.h5 index 4 5 6 6
ranks 2 'rank-0001.h5' rank-0001.h5 index 4 5 6 7
ranks 2 'of another fixture' rank-0001.h5 text fixture_id "$(printf '0%.0s' {1..64})"
ranks 2 'rank-0001.h5' rank-0001.h5 number cp_size 4
ranks 2 'rank-0001.h5' rank-0001.h5 number cp_rank 0
ranks 2 'rank-0001.h5' rank-0001.h5 text layout zigzag
ranks 2 'rank-0001.h5' rank-0001.h5 remove $k
ranks 2 'gradients partial, expected reduced as in' rank-0001.h5 text gradients partial
ranks 0 'rank-0001.h5: declares loss_count 99, and its positions have 4 targets of the whole rows' rank-0001.h5 number loss_count 99
rm -rf ranks && cp -r "$dumps/ranks" ranks && chmod -R u+w ranks
for rank in 0 1; do "$spoil" ranks/rank-000$rank.h5 text gradients partial; done
expect 1 'it would be the same if gradients = "reduced" were declared' cpeq diff "$fixture" ranks
rm ranks/rank-0001.h5
expect 2 'rank 1 of 2 is missing' cpeq diff "$fixture" ranks
cp ranks/rank-0000.h5 ranks/twice.h5
expect 2 'rank 0' cpeq diff "$fixture" ranks

# Files that end early, wherever they end.
bytes=$(wc -c <"$dumps/whole.h5")
for part in 1 2 3 5 7; do
    head -c $((bytes * part / 8)) "$dumps/whole.h5" >short.h5
    expect 3 'short.h5' cpeq diff "$fixture" short.h5
done
finish
