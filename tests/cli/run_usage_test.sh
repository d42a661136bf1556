#!/usr/bin/env bash
# Options and refusals of the commands that run the reference.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/packed7.h5

# An option or value that does not exist yet appears in no help text.
for command in info make export run verify diff calibrate faults; do
    expect 0 Usage cpeq help $command
    for word in gate explain; do
        not_printed "$word"
    done
done

refuse 'expected one FIXTURE, found 0 operands' cpeq run -o x.h5
refuse 'expected one FIXTURE, found 2 operands' cpeq run "$fixture" "$fixture" -o x.h5
refuse 'expected -o DUMP' cpeq run "$fixture"
refuse 'expected one CONFIG, found 0 operands' cpeq make -o x.h5
refuse 'expected -o FIXTURE' cpeq make llama
refuse 'expected one FIXTURE, found 0 operands' cpeq export -o x
refuse 'expected -o DIR' cpeq export "$fixture"
refuse 'expected at least one FIXTURE or DIR, found 0 operands' cpeq verify
refuse 'expected no operand, found 1 operand' cpeq faults x

run() { cpeq run "$fixture" -o x.h5 "$@"; }
for value in 0 -1 2x '' 1025; do refuse '--cp:' run --cp "$value"; done
refuse "--exchange: no 'gossip'; there are local, ulysses, allgather, ring, usp, usp:UxR, usp:UxR:ring-inner" run --exchange gossip
refuse "--exchange: no 'all'; there are local, ulysses, allgather, ring, usp, usp:UxR, usp:UxR:ring-inner" run --exchange all
refuse "--layout: no 'snake'; there are contiguous, zigzag" run --layout snake
refuse "--dtype: no 'float16'; there are float64, float32, bfloat16" run --dtype float16
refuse "--attention: no 'sparse'; there are block, dense, varlen" run --attention sparse
refuse "--transport: no 'nccl'; there are threads, mpi" run --transport nccl
refuse '--transport: mpi needs a launcher: mpirun -n RANKS cpeq run' run --transport mpi
refuse '--cp: given twice' run --cp 1 --cp 2
refuse '--output: given twice' run -o y.h5
refuse '--fault: given twice' run --fault window=dropped --fault chunk=dropped
refuse "--fault" run --fault window
refuse 'label_shift' run --fault no_such_decision=1
refuse 'rolled' run --fault label_shift=sideways
check 'nothing written' no_such_file x.h5 y.h5
cp "$fixture" own.h5
ln own.h5 other-name.h5
refuse 'other-name.h5: is the input own.h5 itself; choose another output' cpeq run own.h5 -o other-name.h5
check 'the input is whole' cmp own.h5 "$fixture"

verify() { cpeq verify "$fixture" "$@"; }
refuse "--cp: '1,,2' is not a list of at most 64 whole numbers from 1 to 1024" verify --cp 1,,2
refuse "--cp: '1,2,' is not a list" verify --cp 1,2,
refuse "--cp: '0' is not a list" verify --cp 0
refuse "--exchange: no 'gossip'; there are local, ulysses, allgather, ring, usp, usp:UxR, usp:UxR:ring-inner" verify --exchange local,gossip
refuse "--exchange: no 'usp:2'; there are" verify --exchange usp:2
refuse '--exchange: at most 16 exchanges of 47 characters' verify --exchange "$(printf '%050d' 0)"
refuse "--exchange: 'local' twice in the list" verify --exchange local,local
refuse "--cp: '2' twice in the list" verify --cp 1,2,2
refuse "--layout: no 'x'; there are contiguous, zigzag" verify --layout x
refuse '--layout: at most 16 layouts of' verify --layout "$(printf '%01100d' 0)"
refuse '--cp and --dp: 1500 ranks, at most 1024' verify --cp 500 --dp 3
refuse "--micro: '0' is not a whole number" verify --micro 0
refuse "--dtype: no ''; there are float64, float32, bfloat16, all" verify --dtype float64,
refuse "--attention: no 'sparse'; there are block, dense, varlen, all" verify --attention sparse
refuse '--transport: mpi needs a launcher' verify --transport mpi
refuse "--rtol: '-1' is not a number of 0 or more" verify --rtol -1
refuse "--atol: 'x' is not a number of 0 or more" verify --atol x

# Combinations that mean nothing: `run` refuses, `verify` lists the same sentence.
both() {
    local words=$1
    shift
    refuse "$words" cpeq run "$fixture" -o x.h5 "$@"
    expect 2 "$words" cpeq verify "$fixture" "$@"
    printed refused
}
both 'exchange local: one rank holds every token; 3 ranks need another exchange' --cp 3 --exchange local
both '4 heads are no multiple of 3 ranks; usp:1x3 would do' --cp 3
both 'exchange usp: 2 times 3 ranks are not 4; usp:4x1 would do' --cp 4 --exchange usp:2x3
both 'over the ranks of a ulysses group, but 4 heads are no multiple of 3 ranks; usp:2x3 would do' --cp 6 \
    --exchange usp:3x2
both 'gqa_map=modulo needs more than one rank to share the heads (ulysses, usp)' --cp 2 --exchange usp:1x2 --fault gqa_map=modulo
both 'alltoall_layout=rank_head needs more than one rank to share the heads (ulysses, usp)' --fault alltoall_layout=rank_head
both 'label_shift=shard needs more than one rank' --fault label_shift=shard
both 'layout striped:9: blocks of 9 tokens, the row has 7' --cp 2 --layout striped:9
fixture=$golden/llama4_dense/full7.h5
both 'chunked attention needs the dense mask: varlen knows causal order, windows and documents alone' --attention varlen
fixture=$golden/gemma2/full7.h5
both 'softcap_order=mask_then_cap: varlen has no mask that could be capped' --attention varlen --fault softcap_order=mask_then_cap
fixture=$golden/gpt_oss/full7.h5
both 'the balancing loss of experts (output_router_logits) is one of all tokens at once' --dp 2
both 'which data-parallel groups and micro-batches do not see' --micro 2
fixture=$golden/llama/micro7.h5
both 'micro-batches of its own, expected 7' --micro 7
check 'nothing written' no_such_file x.h5
finish
