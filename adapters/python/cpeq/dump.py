"""Writing dumps with numpy and h5py alone: what one run, or one rank of it, produced."""

import hashlib
import json
import os

import numpy as np

from cpeq.storage import FORMAT, FORMAT_VERSION, BFloat16, Slice, strings, write_array, write_atomically

__all__ = ["BFloat16", "Slice", "digest", "rank_path", "write_attention", "write_dump"]

LOSS_KINDS = ("global", "share", "mean", "partial_sum", "local_mean")
GRADIENT_KINDS = ("reduced", "partial", "mean")
DECLARED_BY_RANKS = ("token_index", "loss_kind", "gradients", "compute_dtype")


def rank_path(directory, rank):
    return os.path.join(directory, f"rank-{rank:04d}.h5")


def digest(array):
    """sha256 of an array's values as little-endian int64 or float64, in hex, as /ran holds it."""
    kind = "<i8" if np.issubdtype(array.dtype, np.integer) else "<f8"
    return hashlib.sha256(np.ascontiguousarray(array, dtype=kind).tobytes()).hexdigest()


def write_dump(path, *, fixture_id, implementation, results=None, grads=None, grads_partial=None, trace=None, ran=None,
               unread=None, **declared):
    """Write one dump file, complete or not at all.

    results        name -> array for the root: loss, aux_loss, token_loss, logits, token_index, batch_index, ...
    grads          parameter name -> gradient, in the parameter's own storage layout
    grads_partial  the same before any reduction over ranks, beside reduced ones
    trace          register name -> array
    ran            name -> array, or digest(array): what reached the model
    unread         name -> array, or text: anything else that shall stand in the file, which cpeq does not look at
    declared       attributes: cp_size, cp_rank, layout, exchange, compute_dtype, loss_kind, loss_count, gradients,
                   grad_scale, grad_absent (names of parameters whose gradient is None), islands, strip (prefixes),
                   name_map (a list, or its JSON), ...
    Arrays may be numpy arrays, numbers, BFloat16, or a Slice of one.
    """
    declared = _given(declared)
    _check_declared(path, declared, results or {}, DECLARED_BY_RANKS)
    _write(path, "dump", {"fixture_id": fixture_id, "implementation": implementation, **declared},
           {"": results, "grads": grads, "grads_partial": grads_partial, "trace": trace, "ran": ran,
            "unread": unread})


def write_attention(path, *, fixture_id, implementation, out, lse=None, dq=None, dk=None, dv=None, dsink=None,
                    token_index=None, **declared):
    """Write one dump of kind "attention": what an attention function gave, on this rank's tokens.

    out, dq      [B,S,H,D]; lse [B,S,H]: natural logarithm of the sum of exp(score); dk, dv [B,S,K,D]; dsink [H]
    token_index  int64 [S]: global index of each local position, -1 at padding added for the cut; absent: whole, in order
    declared     attributes: cp_size, cp_rank, layout, exchange, compute_dtype, gradients (of dsink), ...
    """
    results = _given({"out": out, "lse": lse, "dq": dq, "dk": dk, "dv": dv, "dsink": dsink,
                      "token_index": token_index})
    declared = _given(declared)
    _check_declared(path, declared, results, ("token_index", "cp_size", "compute_dtype"))
    _write(path, "attention", {"fixture_id": fixture_id, "implementation": implementation, **declared}, {"": results})


def _write(path, kind, declared, groups):
    def write(file):
        for name, value in {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": kind, **declared}.items():
            file.attrs[name] = json.dumps(value) if name == "name_map" and not isinstance(value, str) else strings(value)
        for group, arrays in groups.items():
            for name, value in (arrays or {}).items():
                write_array(file.require_group(group) if group else file, name, value)

    write_atomically(path, write)


def _given(values):
    return {name: value for name, value in values.items() if value is not None}


def _check_declared(path, declared, results, by_ranks):
    for name, known in (("loss_kind", LOSS_KINDS), ("gradients", GRADIENT_KINDS)):
        if name in declared and declared[name] not in known:
            raise ValueError(f"{path}: attribute {name}: expected one of {', '.join(known)},"
                             f" found \"{declared[name]}\"")
    if "cp_rank" in declared:
        missing = [name for name in by_ranks if name not in declared and name not in results]
        if missing:
            raise ValueError(f"{path}: a dump of one rank: expected {', '.join(by_ranks)},"
                             f" found no {', '.join(missing)}")
