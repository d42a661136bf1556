#!/usr/bin/env bash
# What the reference refuses of configurations and batches: never approximated, one sentence each.
. "$(dirname "$0")/support.sh"

cpeq export "$golden/llama/full7.h5" -o hub -q || exit 4
cpeq export "$golden/gemma3_text/full7.h5" -o gemma -q || exit 4
cpeq export "$golden/llama4_dense/full7.h5" -o llama4 -q || exit 4
cpeq export "$golden/llama_rope3/full7.h5" -o rope3 -q || exit 4

# config WORDS FOLDER SED...: the configuration changed by sed is refused by info and by make.
config() {
    local words=$1 folder=$2
    shift 2
    sed "$@" "$folder/config.json" >changed.json
    check "sed $* changes $folder/config.json" bash -c '! cmp -s "$1" changed.json' - "$folder/config.json"
    expect 3 "$words" cpeq info changed.json
    refuse "$words" cpeq make changed.json -o x.h5
}
config "model_type 'mamba' is not known to the reference (known: gemma2" hub 's/"model_type": "llama"/"model_type": "mamba"/'
config "hidden_act 'swish7' is not known to the reference" hub 's/"silu"/"swish7"/'
config 'attention_dropout is not zero: the reference has no dropout' hub \
    's/"attention_dropout": 0.0/"attention_dropout": 0.1/'
config 'quantization_config is set, which the reference does not know' hub \
    's/"model_type"/"quantization_config": {"bits": 4}, &/'
config 'num_hidden_layers 513: the reference takes up to 512' hub 's/"num_hidden_layers": 2/"num_hidden_layers": 513/'
config "layer_types[0] 'linear_attention' is not known to the reference for gemma3_text" gemma \
    '0,/"sliding_attention"/s//"linear_attention"/'
config 'layer 0 slides, and the configuration has no sliding_window' gemma \
    's/"sliding_window": 3/"sliding_window": null/'
config 'layer 0 is chunked, and the configuration has no attention_chunk_size' llama4 \
    's/"attention_chunk_size": 3/"attention_chunk_size": null/'
config 'moe_layers: experts are not known to the reference' llama4 -z 's/"moe_layers": \[[^]]*\]/"moe_layers": [1]/'
config "rope type 'dynamic' is not known to the reference (default, linear, llama3, yarn are)" rope3 's/"llama3"/"dynamic"/'
config 'partial_rotary_factor 0.5 is not known to the reference' rope3 's/"model_type"/"partial_rotary_factor": 0.5, &/'

cpeq export "$golden/mixtral/full7.h5" -o mixtral -q || exit 4
config 'the reference takes up to' mixtral 's/"num_local_experts": 4/"num_local_experts": 1000000000/'
config 'hidden_act: the reference has experts with silu alone' mixtral 's/"silu"/"gelu"/'
config 'router_jitter_noise is not zero: the reference draws no noise' mixtral \
    's/"router_jitter_noise": 0.0/"router_jitter_noise": 0.1/'

# batch WORDS T NAME=LIST...: one row of such a batch is refused by make.
batch() {
    local words=$1 T=$2
    shift 2
    "$root/tests/cli/batch.pl" b.safetensors 1 "$T" "$@"
    refuse "$words" cpeq make llama --batch b.safetensors -o x.h5
    check 'the file is named' grep -qF b.safetensors "$work/.err"
}
ids=input_ids=5,6,7,8
batch 'and there is an attention_mask: with it transformers sees one document' 4 $ids labels=5,6,7,8 \
    position_ids=0,1,0,1 attention_mask=1,1,1,1
batch 'padding is a target; -100 is expected there' 4 $ids labels=5,6,7,8 attention_mask=1,1,1,0
batch 'this target would be predicted from padding (token 0); -100 is expected there' 4 $ids labels=-100,6,7,8 \
    attention_mask=0,1,1,1
batch 'this target would be predicted from padding (token 0)' 4 $ids shift_labels=6,7,8,-100 attention_mask=0,1,1,1
batch 'there is no target: the loss would be 0/0' 4 $ids labels=5,-100,-100,-100
batch '99 is outside [0,37)' 4 input_ids=5,6,7,99 labels=5,6,7,8
batch 'b.safetensors: frobnicate: no member of a batch' 4 $ids labels=5,6,7,8 frobnicate=1,1,1,1
batch 'neither labels nor shift_labels' 4 $ids
"$root/tests/cli/batch.pl" b.safetensors 1 4 $ids labels=5,6,7,8 microbatch=3
refuse '/batch/microbatch: row 0 is of micro-batch 3, expected one below the 1 rows' cpeq make llama \
    --batch b.safetensors -o x.h5
check 'nothing written' no_such_file x.h5

"$root/tests/cli/batch.pl" groups.safetensors 2 2 input_ids=5,6,7,8 labels=5,6,7,8 data_parallel=0,2
expect 0 'groups.h5' cpeq make llama --batch groups.safetensors -o groups.h5
expect 3 '/batch/data_parallel: row 1 is of group 2, expected one of 2 groups' cpeq run groups.h5 --dp 2 -o x.h5
expect 0 '1 same' cpeq verify groups.h5 --dp 3 --cp 2
expect 0 '' cpeq run groups.h5 --dp 3 --micro 2 --cp 2 -o whole.h5
expect 0 'SAME' cpeq diff groups.h5 whole.h5
finish
