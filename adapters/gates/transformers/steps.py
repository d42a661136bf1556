"""One training step of transformers in a working precision, as a dump; or a reason why there is none."""

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import cpeq.batch
import cpeq.transformers
from cpeq.dump import BFloat16, write_dump
from cpeq.float64 import Float64

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def why_not(fixture, attention):
    """What transformers cannot be asked for, or ""."""
    config = AutoConfig.for_model(**fixture.config)
    if attention == "sdpa" and not AutoModelForCausalLM._model_mapping[type(config)]._supports_sdpa:
        return "no sdpa"
    packed = (cpeq.batch.documents(fixture) > 0).any()
    if fixture.config["model_type"] == "gpt_oss" and packed:
        return "documents not isolated"
    return ""


def run(fixture, attention, dtype, path, autocast=False):
    """Writes the dump of the whole step. Returns how many tokens chose other experts than in float64.

    autocast: parameters stay in float32 and dtype is what torch.autocast computes in.
    """
    torch.set_num_threads(1)
    stored = torch.float32 if autocast else DTYPES[dtype]
    model = cpeq.transformers.load(fixture, attention, stored)
    chosen = watch_choices(model)
    with torch.autocast("cpu", DTYPES[dtype], enabled=autocast):
        results = joined([step(model, part) for part in parts(fixture, stored)], fixture)
    embeds = {"inputs_embeds": results.pop("inputs_embeds")} if "inputs_embeds" in results else {}
    grads = {name: array(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
             for name, parameter in model.named_parameters()}
    write_dump(path, fixture_id=fixture.id, implementation=f"transformers {attention}", results=results,
               grads=grads | embeds, compute_dtype=dtype, loss_kind="global", gradients="reduced")
    return flips(fixture, chosen)


def step(model, inputs):
    """Forward and backward of one micro-batch; gradients of parameters stay in the model."""
    output = model(**inputs)
    output.loss.backward()
    logits = output.logits.detach()
    targets = inputs.get("shift_labels")
    if targets is None:
        targets = torch.nn.functional.pad(inputs["labels"], (0, 1), value=cpeq.batch.IGNORED)[:, 1:]
    token_loss = torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    results = {"loss": output.loss.detach(), "token_loss": token_loss, "logits": logits}
    if "inputs_embeds" in inputs:
        results["inputs_embeds"] = inputs["inputs_embeds"].grad
    return results


def micro_batches(fixture):
    """The rows of each."""
    numbers = fixture.batch.get("microbatch", np.zeros(fixture.shape[0], np.int64))
    return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]


def parts(fixture, dtype):
    """The model's arguments for each micro-batch, all with the divisor of the whole batch."""
    whole, rows = cpeq.transformers.inputs(fixture), micro_batches(fixture)
    for own in rows:
        inputs = {name: value[own] if isinstance(value, torch.Tensor) and value.ndim > 0 else value
                  for name, value in whole.items()}
        if len(rows) > 1 or "num_items_in_batch" in inputs:
            inputs["num_items_in_batch"] = cpeq.batch.divisor(fixture)
        if "inputs_embeds" in inputs:
            inputs["inputs_embeds"] = inputs["inputs_embeds"].detach().to(dtype).requires_grad_(True)
        yield inputs


def joined(results, fixture):
    """Losses are added up, rows come back to where they stand in the batch."""
    back = np.argsort(np.concatenate(micro_batches(fixture)))
    whole = {name: array(torch.cat([part[name] for part in results])[back]) for name in results[0] if name != "loss"}
    return whole | {"loss": np.float32(sum(part["loss"].item() for part in results))}


def array(tensor):
    """As write_dump takes it."""
    tensor = tensor.detach().contiguous()
    return BFloat16(tensor.view(torch.uint16).numpy()) if tensor.dtype is torch.bfloat16 else tensor.numpy().copy()


# ---- experts ----

def watch_choices(model):
    """A list that fills with the experts of each token, router by router."""
    chosen = []
    for name, module in model.named_modules():
        if name.endswith((".mlp.router", ".mlp.gate")):
            module.register_forward_hook(lambda module, args, output: chosen.append(output[2].sort(-1).values))
    return chosen


def flips(fixture, chosen):
    """How many of these choices are not those of a float64 run. Micro-batches of experts are not told apart."""
    if not chosen:
        return 0
    model = cpeq.transformers.load(fixture)
    true = watch_choices(model)
    with Float64(), torch.no_grad():
        model(**cpeq.transformers.inputs(fixture))
    return sum(int((one != other).any(-1).sum()) for one, other in zip(chosen, true, strict=True))
