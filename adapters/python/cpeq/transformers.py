"""A transformers model, and its inputs, from a fixture."""

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from cpeq.fixture import FormatError
from cpeq.float64 import Float64

MODEL_INPUTS = ("input_ids", "inputs_embeds", "attention_mask", "position_ids", "labels", "shift_labels",
                "num_items_in_batch")


def load(fixture, attn_implementation="eager", dtype=torch.float64, experts_implementation="eager", device=None):
    """The fixture's model in training mode with its weights; refuses if any parameter was not given or is unknown.

    attn_implementation, experts_implementation    as transformers calls them: "sdpa", "flex_attention", "grouped_mm", ...
    In float64 the model is built under Float64, so that what it computes from the configuration is double as well.
    """
    config = AutoConfig.for_model(**fixture.config)
    if dtype is torch.float64:
        with Float64():
            model = _build(fixture, config, dtype, attn_implementation, experts_implementation)
    else:
        model = _build(fixture, config, dtype, attn_implementation, experts_implementation)
    return model.to(device).train()


def inputs(fixture, device=None):
    """The fixture's whole batch as the model's keyword arguments."""
    given = {name: _tensor(fixture.batch[name]).to(device) for name in MODEL_INPUTS if name in fixture.batch}
    if "shift_labels" in given:
        given.setdefault("labels", given["shift_labels"])
    if "inputs_embeds" in given:
        given["inputs_embeds"].requires_grad_(True)
    return {**given, "use_cache": False}


def _build(fixture, config, dtype, attn_implementation, experts_implementation):
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attn_implementation,
                                             experts_implementation=experts_implementation)
    state = model.state_dict(keep_vars=True)
    given = dict(fixture.weights)
    for name, others in fixture.tied.items():
        given.update((other, fixture.weights[name]) for other in others)
    _check_names(fixture, state, given)
    with torch.no_grad():
        for name, array in given.items():
            if state[name].shape != array.shape:
                raise FormatError(f"{fixture.path}: /weights/{name}: expected shape {list(state[name].shape)}"
                                  f" as in the model, found {list(array.shape)}")
            state[name].copy_(_tensor(array))
    return model


def _tensor(array):
    """A numpy array as a tensor; floats as float64, so that no narrower tensor appears on the way."""
    return torch.from_numpy(array.astype(np.float64 if array.dtype.kind == "f" else array.dtype))


def _check_names(fixture, state, given):
    missing = sorted(set(state) - set(given))
    unknown = sorted(set(given) - set(state))
    if missing or unknown:
        raise FormatError(f"{fixture.path}: /weights: expected the names of {fixture.config.get('model_type')}'s"
                          f" state dict, found {_names('no', missing)}{' and ' * bool(missing and unknown)}"
                          f"{_names('also', unknown)}")


def _names(word, names):
    return f"{word} {', '.join(names[:3])}{' …' * (len(names) > 3)}" if names else ""
