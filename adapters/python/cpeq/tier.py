"""make-tier: fixtures of sizes that accelerators' kernels run on, made on the spot.

    python -m cpeq make-tier FOLDER [--only GLOB] [--seed N] [--control-runs N] [--device DEVICE]

Head size 64, hidden size 256, all widths multiples of 64, 256 or 250 tokens, 2 to 4 layers. Weights and tokens are drawn
from the seed and are exact in bfloat16. What is expected is computed by transformers on the CPU, in float64 under
cpeq.Float64; limits for float32 and bfloat16 are made of as many control runs of its eager attention there, with
disturbed rounding. Needs torch and transformers.
"""

import argparse
import fnmatch
import hashlib
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import cpeq.transformers
from cpeq import program
from cpeq.batch import IGNORED, shift_labels
from cpeq.fixture import Fixture, write_fixture
from cpeq.float64 import Float64
from cpeq.recorder import record
from cpeq.storage import BFloat16
from cpeq.tensors import stored

LEAST_RUNS = 8
SIZES = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 512, "pad_token_id": 3, "bos_token_id": 1,
         "eos_token_id": 2, "use_cache": False, "tie_word_embeddings": False}
FAMILIES = {
    "llama": {"model_type": "llama", "num_hidden_layers": 2},
    "qwen3": {"model_type": "qwen3", "num_hidden_layers": 4},
    "mistral": {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 64},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
}
CASES = {"full256": {"lengths": [[256], [256]]}, "packed250": {"lengths": [[100, 3, 61, 86]]},
         "right256": {"lengths": [[256], [131]], "pad": "right"}, "left250": {"lengths": [[250], [77]], "pad": "left"}}
TIER = [f"{family}/{case}" for family in FAMILIES for case in CASES
        if family == "llama" or case in ("full256", "packed250")]
DTYPES = (torch.float32, torch.bfloat16)


def make(folder, name, seed=0, control_runs=LEAST_RUNS, device="cpu"):
    """Write the fixture FOLDER/FAMILY/CASE.h5; returns its path. device: where control runs run; the truth is the CPU's."""
    family, case = name.split("/")
    path = pathlib.Path(folder, f"{name}.h5")
    settings = {**SIZES, **FAMILIES[family]}
    config = AutoConfig.for_model(**settings)
    with Float64():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float64, attn_implementation="eager",
                                                 experts_implementation="eager")
    weights = {weight: _draw(f"{seed}/{family}/{weight}", tuple(parameter.shape))
               for weight, parameter in model.named_parameters()}
    if "num_local_experts" in settings:
        _settle_experts(weights, seed, settings)
    weights = {weight: stored(torch.from_numpy(values).to(torch.bfloat16)) for weight, values in weights.items()}
    batch = _batch(f"{seed}/{name}", **CASES[case])
    text = json.dumps(json.loads(config.to_json_string(use_diff=False)), indent=2, sort_keys=True) + "\n"
    with tempfile.TemporaryDirectory() as temporary:
        write_fixture(pathlib.Path(temporary, "given.h5"), batch=batch, config=text, weights=weights)
        fixture = Fixture(pathlib.Path(temporary, "given.h5"))
        expected, order = _expected(fixture)
    attributes = {"source": f"transformers {transformers.__version__} eager float64, torch {torch.__version__}",
                  "precision": "float64 everywhere, by cpeq.Float64", "order": order}
    write_fixture(path, batch=batch, config=text, weights=weights, expected=expected, attributes=attributes,
                  producer=f"cpeq make-tier, seed {seed}")
    for dtype in DTYPES if control_runs else ():
        calibrate(path, dtype, control_runs, device)
    return path


def _draw(name, shape):
    """One parameter: matrices of variance 1/fan_in, norms near 1, embeddings of half the size."""
    values = _random(name).standard_normal(shape)
    if len(shape) == 1:
        values = 1 + 0.1 * values
    else:
        values *= 0.5 if "embed_tokens" in name else shape[-1] ** -0.5
    return values


def _settle_experts(weights, seed, settings):
    """Let each token say clearly, by its embedding, which two experts it goes to: where that is a close call, rounding
    to bfloat16 alone changes it, and the step can show nothing in that precision."""
    random, experts = _random(f"{seed}/experts"), settings["num_local_experts"]
    directions = random.choice([-1.0, 1.0], (experts, settings["hidden_size"]))
    first = random.integers(0, experts, settings["vocab_size"])
    second = (first + random.integers(1, experts, settings["vocab_size"])) % experts
    weights["model.embed_tokens.weight"] += directions[first] + 0.6 * directions[second]
    for name in weights:
        if name.endswith("mlp.gate.weight"):
            weights[name] = 0.3 * directions / settings["hidden_size"] ** 0.5


def _random(name):
    return np.random.Generator(np.random.Philox(key=int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")))


def _batch(name, lengths, pad=None):
    """Rows of documents of these lengths; padded ones on the left or right."""
    longest = max(map(sum, lengths))
    ids = _random(f"{name}/ids").integers(4, SIZES["vocab_size"], (len(lengths), longest))
    batch = {"input_ids": ids, "labels": ids.copy()}
    if any(len(row) > 1 for row in lengths):
        batch["position_ids"] = np.stack([np.concatenate([np.arange(n) for n in row]) for row in lengths])
        batch["document_ids"] = np.stack([np.repeat(np.arange(len(row)), row) for row in lengths])
        first = batch["position_ids"] == 0
        batch["labels"] = np.where(first, IGNORED, ids)  # no document predicts the first token of the next
    if pad:
        real = np.stack([np.arange(longest) < sum(row) for row in lengths])
        real = real[:, ::-1] if pad == "left" else real
        batch["attention_mask"] = real.astype(np.uint8)
        batch["input_ids"] = np.where(real, ids, SIZES["pad_token_id"])
        predicted = real & np.pad(real[:, :-1], ((0, 0), (1, 0)))  # padding predicts nothing
        batch["labels"] = np.where(predicted, ids, IGNORED)
    return batch


def _expected(fixture):
    """Arrays by path below /expected, and the names of gradients in the order of execution."""
    model, order = cpeq.transformers.load(fixture), []
    for name, module in model.named_modules():
        own = [f"{name}.{weight}" for weight, _ in module.named_parameters(recurse=False)]
        module.register_forward_pre_hook(lambda module, args, own=own: order.extend(own))
    with Float64(strict=True):
        output = model(**cpeq.transformers.inputs(fixture))
        output.loss.backward()
    logits = output.logits.detach()
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), torch.from_numpy(shift_labels(fixture)),
                                               reduction="none")
    arrays = {"loss": stored(output.loss), "token_loss": stored(losses), "logits": stored(logits)}
    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        arrays[f"grads/{name}"] = stored(gradient)
    return arrays, list(dict.fromkeys(order))


def calibrate(path, dtype, runs=LEAST_RUNS, device="cpu"):
    """Limits of this dtype into the fixture, from control runs: the first as it is, the others disturbed."""
    fixture = Fixture(path)
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            model = cpeq.transformers.load(fixture, dtype=dtype, device=device)
            recorder = record(model, fixture=fixture, out=f"{folder}/run-{run:03d}.h5", digests=False)
            with recorder.set(disturbance=run or None) as r:
                run_step(r, model)
        program.run("calibrate", "--from", path, *sorted(pathlib.Path(folder).glob("*.h5")))


def run_step(r, model):
    """One step of a transformers model on the whole batch of a recorder's fixture: forward, backward, results."""
    inputs = cpeq.transformers.inputs(r.fixture, next(model.parameters()).device)
    output = model(**inputs)
    output.loss.backward()
    targets = torch.from_numpy(shift_labels(r.fixture)).to(output.logits.device)
    losses = torch.nn.functional.cross_entropy(output.logits.float().transpose(1, 2), targets, reduction="none")
    r.loss(output.loss)
    r.token_loss(losses)
    r.logits(output.logits)


def main(arguments):
    parser = argparse.ArgumentParser(prog="cpeq make-tier", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="*", metavar="GLOB", help="fixtures of that name, as 'llama/*'")
    parser.add_argument("--seed", type=int, default=0, help="what weights and tokens are drawn from (0)")
    parser.add_argument("--control-runs", type=int, default=LEAST_RUNS, metavar="N",
                        help="for the limits of float32 and bfloat16, at least 8, or 0 for none (8)")
    parser.add_argument("--device", default="cpu", help="where the control runs run, as torch calls it (cpu)")
    options = parser.parse_args(arguments)
    names = fnmatch.filter(TIER, options.only)
    if not names:
        parser.error(f"--only {options.only}: expected one of {', '.join(TIER)}")
    if 0 < options.control_runs < LEAST_RUNS:
        parser.error(f"--control-runs {options.control_runs}: expected 0 or at least {LEAST_RUNS}")
    for name in names:
        path = make(options.folder, name, options.seed, options.control_runs, options.device)
        print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
