"""Prints seconds, GF/s and peak bytes of transformers' own training step of the model of scripts/bench: T THREADS."""

import resource
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main(length, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=8192, hidden_size=512, intermediate_size=1536, num_hidden_layers=8,
                         num_attention_heads=8, num_key_value_heads=4, head_dim=64, tie_word_embeddings=False,
                         attn_implementation="sdpa", use_cache=False)
    model = LlamaForCausalLM(config)
    ids = torch.randint(0, config.vocab_size, (1, length))
    best = min(step(model, ids) for _ in range(4))
    parameters = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
    operations = 6 * parameters * length + 6 * config.num_hidden_layers * length**2 * config.hidden_size
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{best:.3f} {operations / best / 1e9:.1f} {peak}")


def step(model, ids):
    model.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    model(input_ids=ids, labels=ids).loss.backward()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
