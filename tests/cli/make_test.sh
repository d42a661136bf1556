#!/usr/bin/env bash
# make and export: fixtures from nothing, from files, and the way back.
. "$(dirname "$0")/support.sh"

# Every family; what is written is read back and is the same however it is cut.
for family in llama qwen2 qwen3 mistral gemma2 gemma3_text llama4_text gpt_oss mixtral; do
    expect 0 "$family.h5: loss" cpeq make $family -o $family.h5
    expect 0 '2 same' cpeq verify $family.h5 --cp 1,2
done
expect 0 'self-made' cpeq info llama.h5
printed '2 rows of 16 tokens'
cp llama.h5 first.h5
expect 0 '"fixture_id"' cpeq make llama -o llama.h5 --json
check 'the same bytes twice' cmp -s first.h5 llama.h5
expect 0 '' cpeq make llama -o llama.h5 --seed 1 -q
check 'another seed, other bytes' bash -c '! cmp -s first.h5 llama.h5'

# Batches, as info draws them.
expect 0 loss cpeq make llama --batch packed:5,1,7,3 -o b.h5
expect 0 'aaaaabcccccccddd' cpeq info b.h5
printed '^^^^  ^^^^^^ ^^'
expect 0 loss cpeq make llama --left-pad 7,4,2 -o b.h5
expect 0 '...aaaa' cpeq info b.h5
expect 0 loss cpeq make llama --right-pad 7,4,2 --length 9 -o b.h5
expect 0 'aaaa.....' cpeq info b.h5
expect 0 '2 same' cpeq verify b.h5 --cp 1,2
expect 0 loss cpeq make llama --embeds --length 6 -o b.h5
expect 0 '2 rows of 6 tokens, inputs_embeds' cpeq info b.h5
expect 0 '2 same' cpeq verify b.h5 --cp 1,4
expect 0 loss cpeq make llama --prompt 12 -o b.h5
expect 0 'loss divided by 8' cpeq info b.h5

# Masks and memory, of a fixture and of a configuration alone.
expect 0 '--+--+--+-' cpeq info "$golden/llama/left7.h5" --mask 1 --cp 4
printed '##|##|#.|.'
expect 0 '"mask"' cpeq info "$golden/llama/left7.h5" --mask 1 --json
expect 3 '--mask: layer 2 of' cpeq info "$golden/llama/left7.h5" --mask 2
expect 0 loss cpeq make llama --length 200 -o long.h5
expect 3 '--mask: a row of 200 tokens; at most 128 are drawn' cpeq info long.h5 --mask 0
refuse "--mask: $dumps/whole.h5 is no fixture" cpeq info "$dumps/whole.h5" --mask 0
expect 0 'float32: weights' cpeq info "$golden/llama/left7.h5" --cp 2

# To a Hugging Face folder and back.
expect 0 'config.json, model.safetensors (21 weights), batch.safetensors' cpeq export "$golden/llama/left7.h5" -o hub
check 'three files' ls hub/config.json hub/model.safetensors hub/batch.safetensors
expect 0 '"output": "hub"' cpeq export "$golden/llama/left7.h5" --output hub --json
expect 0 loss cpeq make hub/config.json --weights hub/model.safetensors --batch hub/batch.safetensors -o back.h5
id() { cpeq info "$1" --json | sed -n 's/.*"fixture_id": "\(.*\)".*/\1/p'; }
check 'the same fixture' [ "$(id back.h5)" = "$(id "$golden/llama/left7.h5")" ]
expect 0 '' cpeq run back.h5 -o back_run.h5
expect 0 'SAME' cpeq diff "$golden/llama/left7.h5" back_run.h5
expect 0 'one row of 512 tokens' cpeq info hub/config.json
expect 0 'one row of 64 tokens' cpeq info hub/config.json --length 64 --cp 2
loss() { cpeq info "$1" | sed -n 's/ *loss *\(.\{14\}\).*/\1/p'; }
for case in embeds7 items7 shifted7 packed7 micro7; do
    expect 0 '' cpeq export "$golden/llama/$case.h5" -o hub -q
    expect 0 '' cpeq make hub/config.json --weights hub/model.safetensors --batch hub/batch.safetensors -o back.h5 -q
    check "the same loss as $case, $(loss back.h5)" [ "$(loss back.h5)" = "$(loss "$golden/llama/$case.h5")" ]
done

# A small model of a large one.
sed 's/"hidden_size": 16/"hidden_size": 4096/; s/"num_hidden_layers": 2/"num_hidden_layers": 32/' hub/config.json >large.json
check 'large' grep -q 4096 large.json
expect 0 loss cpeq make large.json --shrink -o small.h5
expect 0 '1 layer, hidden 16' cpeq info small.h5

# What contradicts, and what does not fit.
refuse '--shrink' cpeq make large.json --shrink --weights hub/model.safetensors -o x.h5
refuse '--right-pad: not together with --left-pad' cpeq make llama --left-pad 3 --right-pad 3 -o x.h5
refuse '--batch: packed rows are not padded' cpeq make llama --batch packed:3,4 --left-pad 3 -o x.h5
refuse '--length: the documents of --batch have their lengths' cpeq make llama --batch packed:3,4 --length 7 -o x.h5
refuse '--length: 3, but a row has 5 real tokens' cpeq make llama --left-pad 5,2 --length 3 -o x.h5
refuse 'hub/batch.safetensors is a whole batch' cpeq make llama --batch hub/batch.safetensors --embeds -o x.h5
refuse "'packed:' is not packed: and a list" cpeq make llama --batch packed: -o x.h5
refuse "'packed:3,0' is not packed: and a list" cpeq make llama --batch packed:3,0 -o x.h5
refuse "--left-pad: '7,x' is not a list" cpeq make llama --left-pad 7,x -o x.h5
refuse "--right-pad: '0' is not a list" cpeq make llama --right-pad 0 -o x.h5
refuse "--length: '1' is not a whole number from 2" cpeq make llama --length 1 -o x.h5
refuse "--prompt: '-1' is not a whole number from 0" cpeq make llama --prompt -1 -o x.h5
refuse "--seed: '1.5' is not a whole number from 0" cpeq make llama --seed 1.5 -o x.h5
refuse "--mask: 'x' is not a whole number" cpeq info back.h5 --mask x
refuse 'neither a file nor a family; families are' cpeq make lama -o x.h5
refuse 'missing' cpeq make llama --weights missing.safetensors -o x.h5
refuse 'missing' cpeq make llama --batch missing.safetensors -o x.h5
refuse 'model.safetensors' cpeq make hub/config.json --batch hub/model.safetensors -o x.h5
refuse 'x.h5' cpeq make qwen3 --weights hub/model.safetensors -o x.h5
one_sentence 4 'there is no folder no/such' cpeq make llama -o no/such/x.h5
folder=$(printf 'f%.0s' {1..200})
deep=$(printf "$folder/%.0s" {1..20})$(printf 'g%.0s' {1..70})
refuse 'a path of more than 4096 characters' cpeq export "$golden/llama/left7.h5" -o "$deep"
one_sentence 4 '/dev/full: cannot be written' cpeq make llama -o /dev/full
one_sentence 4 'cannot be made' cpeq export "$golden/llama/left7.h5" -o back.h5
limited() { (ulimit -f 8 && cpeq "$@"); }
one_sentence 4 'big.h5' limited make llama -o big.h5
one_sentence 4 'cannot' limited export "$golden/llama/left7.h5" -o full
cp "$golden/llama/left7.h5" old.h5
cp old.h5 new.h5
stays old.h5 new.h5 limited make llama -o new.h5
cp old.h5 full/model.safetensors
stays old.h5 full/model.safetensors limited export "$golden/llama/left7.h5" -o full
rm full/model.safetensors
check 'no partial file' no_such_file x.h5 big.h5 big.h5.*.tmp full/*.tmp full/model.safetensors
finish
