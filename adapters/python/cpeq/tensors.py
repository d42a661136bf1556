"""torch's tensors and modules as a dump has them: arrays, slices of sharded tensors, names without wrappers."""

import inspect

import numpy as np
import torch

from cpeq.dump import digest
from cpeq.storage import BFloat16, Slice

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
ADAPTER_PREFIX = "base_model.model."
NUMPY_KNOWS = (torch.float64, torch.float32, torch.float16)


def stored(value):
    """Anything a step produces as what write_dump takes; a sharded tensor is gathered, by all of its ranks."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.full_tensor() if is_sharded(value) else value
    value = value.detach().cpu().contiguous()
    if value.dtype is torch.bfloat16:
        return BFloat16(value.view(torch.uint16).numpy().copy())
    if value.is_floating_point() and value.dtype not in NUMPY_KNOWS:
        value = value.float()
    return value.numpy().copy()


def stored_slice(value, ranks):
    """A gradient like stored(), but of a DTensor only what this rank holds, as a Slice; None where that is nothing.

    ranks: how many write a dump; where the tensor is spread over fewer of them, others hold the same.
    """
    if not is_sharded(value):
        return stored(value)
    if not all(_is_plain(placement) for placement in value.placements):
        return stored(value)  # partial sums, or interleaved slices
    mesh = value.device_mesh
    shape, offset = list(value.shape), [0] * value.ndim
    for axis, placement in enumerate(value.placements):
        if placement.is_shard():
            _cut(shape, offset, placement.dim % value.ndim, mesh.get_local_rank(axis), mesh.size(axis))
    if 0 in shape:
        return None
    copies = [mesh.size(axis) for axis, placement in enumerate(value.placements) if placement.is_replicate()]
    local = value.to_local()
    if list(local.shape) != shape:
        raise ValueError(f"a sharded gradient of shape {list(value.shape)}: expected a part of shape {shape} on this rank,"
                         f" found {list(local.shape)}")
    return Slice(stored(local), tuple(value.shape), tuple(offset), max(copies, default=1) > 1 or mesh.size() < ranks)


def is_sharded(value):
    return hasattr(value, "full_tensor")


def _is_plain(placement):
    from torch.distributed.tensor import Replicate, Shard
    return type(placement) in (Replicate, Shard)


def _cut(shape, offset, axis, rank, size):
    """One more cut along an axis, as torch.chunk makes it: all parts but the last ones are equally long."""
    part = -(-shape[axis] // size)
    begin = min(rank * part, shape[axis])
    shape[axis] = min(part, shape[axis] - begin)
    offset[axis] += begin


def weight_digests(model, fixture):
    """/ran/weights: sha256 of every weight that the fixture knows, or of all parameters where it has none; sharded ones are
    gathered, one at a time."""
    tensors = [*model.named_parameters(), *(model.named_buffers() if fixture.weights else ())]
    return {f"weights/{name}": digest(stored(tensor.detach().double()))
            for name, tensor in named(tensors, fixture) if name in fixture.weights or not fixture.weights}


def named(pairs, fixture):
    """The pairs under the fixture's names: what wrappers put into a name is dropped, and of tied weights, whichever
    name the model uses, the fixture's is taken."""
    tied = {other: name for name, others in fixture.tied.items() for other in others}
    found = {}
    for name, tensor in pairs:
        plain = name if name in fixture.weights else stripped(name)
        plain = plain if plain in fixture.weights else tied.get(plain, plain)
        if plain in found and found[plain] is not tensor:
            raise ValueError(f"model: {name}: expected one tensor named {plain} without its wrappers, found two")
        found[plain] = tensor
    return found.items()


def stripped(name):
    return ".".join(part for part in name.removeprefix(ADAPTER_PREFIX).split(".") if part not in WRAPPERS
                    ).removeprefix(ADAPTER_PREFIX)


def arguments(module, args, kwargs):
    """name -> value of a call of module; of a wrapper, which takes anything, the names are those of what it wraps."""
    return {**dict(zip(_parameter_names(module), args)), **kwargs}


def _parameter_names(module):
    names = [name for name, parameter in inspect.signature(module.forward).parameters.items()
             if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if names:
        return names
    inside = next((getattr(module, name) for name in WRAPPERS if isinstance(getattr(module, name, None), torch.nn.Module)),
                  None)
    return [] if inside is None else _parameter_names(inside)


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")
