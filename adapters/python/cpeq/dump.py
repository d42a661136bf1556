"""Writing dumps with numpy and h5py alone: what one run, or one rank of it, produced."""

import hashlib
import os
from dataclasses import dataclass

import h5py
import numpy as np

from cpeq.fixture import FORMAT, FORMAT_VERSION

LOSS_KINDS = ("global", "share", "mean", "partial_sum", "local_mean")
GRADIENT_KINDS = ("reduced", "partial", "mean")
DECLARED_BY_RANKS = ("token_index", "loss_kind", "gradients", "compute_dtype")


@dataclass(frozen=True)
class BFloat16:
    """bfloat16 values as the uint16 words that numpy can hold."""

    words: np.ndarray


def rank_path(directory, rank):
    return os.path.join(directory, f"rank-{rank:04d}.h5")


def digest(array):
    """sha256 of an array's values as little-endian int64 or float64, in hex, as /ran holds it."""
    kind = "<i8" if np.issubdtype(array.dtype, np.integer) else "<f8"
    return hashlib.sha256(np.ascontiguousarray(array, dtype=kind).tobytes()).hexdigest()


def write_dump(path, *, fixture_id, implementation, results=None, grads=None, trace=None, ran=None, **declared):
    """Write one dump file, complete or not at all.

    results   name -> array for the root: loss, aux_loss, token_loss, logits, token_index, batch_index, ...
    grads     parameter name -> gradient, in the parameter's own storage layout
    trace     register name -> array
    ran       name -> array, or digest(array): what reached the model
    declared  attributes: cp_size, cp_rank, layout, exchange, compute_dtype, loss_kind, loss_count, gradients,
              grad_scale, grad_absent (names of parameters whose gradient is None), islands, ...
    Arrays may be numpy arrays, numbers or BFloat16.
    """
    declared = {name: value for name, value in declared.items() if value is not None}
    _check_declared(path, declared, results or {})
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": "dump",
              "fixture_id": fixture_id, "implementation": implementation}
    groups = {"": results, "grads": grads, "trace": trace, "ran": ran}

    def write(file):
        for name, value in {**header, **declared}.items():
            file.attrs[name] = _attribute(value)
        for group, arrays in groups.items():
            for name, value in (arrays or {}).items():
                _write(file.require_group(group) if group else file, name, value)

    _write_atomically(path, write)


def _check_declared(path, declared, results):
    for name, known in (("loss_kind", LOSS_KINDS), ("gradients", GRADIENT_KINDS)):
        if name in declared and declared[name] not in known:
            raise ValueError(f"{path}: attribute {name}: expected one of {', '.join(known)},"
                             f" found \"{declared[name]}\"")
    if "cp_rank" in declared:
        missing = [name for name in DECLARED_BY_RANKS if name not in declared and name not in results]
        if missing:
            raise ValueError(f"{path}: a dump of one rank: expected {', '.join(DECLARED_BY_RANKS)},"
                             f" found no {', '.join(missing)}")


def _attribute(value):
    if isinstance(value, (list, tuple)):
        return np.array(list(value), dtype=h5py.string_dtype())
    return value


def _write(group, name, value):
    if isinstance(value, str):
        group.create_dataset(name, data=value, dtype=h5py.string_dtype())
    elif isinstance(value, BFloat16):
        group.create_dataset(name, data=np.ascontiguousarray(value.words)).attrs["dtype"] = "bfloat16"
    else:
        group.create_dataset(name, data=np.asarray(value))


def _write_atomically(path, write):
    """Write beside the target and rename, so that nobody reads half a file."""
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with h5py.File(temporary, "w") as file:
            write(file)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
