"""JAX: fixtures as jax arrays, and dumps from pytrees.

A gradient's name is its path in the tree, joined by dots: {"model": {"layers": [{"w": g}]}} is model.layers.0.w. Where
names or layouts are not those of the fixture, name_map says what is what (docs/file-format.md).

    params = cpeq.jax.weights(fixture)
    b = cpeq.jax.batch(fixture, rank, size)
    (loss, logits), grads = step(params, b)
    cpeq.jax.write_step("dump", fixture=fixture, loss=loss, logits=logits, grads=grads, params=params,
                        rank=rank, size=size, loss_kind="share", gradients="partial")

Never in one process with the run that it is compared to.
"""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np

from cpeq.batch import local_batch
from cpeq.dump import digest, rank_path, write_attention, write_dump
from cpeq.fixture import Fixture
from cpeq.storage import Slice


def weights(fixture, dtype=jnp.float64):
    """name -> array of every weight of the fixture, by its name in the state dict."""
    return {name: _array(weight, dtype) for name, weight in fixture.weights.items()}


def batch(fixture, rank=0, size=1, layout="contiguous", rows=None, dtype=jnp.float64):
    """The LocalBatch of this rank as jax arrays; embeddings in dtype."""
    local = local_batch(fixture, rank, size, layout, rows)

    def moved(value):
        return _array(value, dtype if value.dtype.kind == "f" else value.dtype) if isinstance(value, np.ndarray) else value

    return type(local)(**{f.name: moved(getattr(local, f.name)) for f in dataclasses.fields(local)})


def write_step(out, *, fixture, grads, loss=None, token_loss=None, logits=None, aux_loss=None, params=None, trace=None,
               rank=0, size=1, layout="contiguous", rows=None, exchange=None, loss_kind="global", gradients="reduced",
               implementation="jax", compute_dtype=None, inputs_ran=None, **declared):
    """Write the dump of one step, or of one rank of it.

    out         a file ending in .h5, or a directory (rank-0003.h5 in it, or whole.h5 if size is 1)
    grads       tree of gradients; None for a parameter whose gradient is not known. A gradient for inputs_embeds is the
                leaf of that name at the root
    loss, token_loss [B,S], logits [B,S,V], aux_loss    arrays of this rank's positions, as batch() has them
    params      tree of the weights that were run: their hashes go into the dump, where names and shapes are the fixture's
    trace       register -> array
    inputs_ran  name -> array [B,S]: input_ids, position_ids, shift_labels as they reached the model
    rank, size, layout, rows, exchange, loss_kind, gradients, compute_dtype, declared    as in cpeq.record
    """
    fixture = fixture if isinstance(fixture, Fixture) else Fixture(fixture)
    local = local_batch(fixture, rank, size, layout, rows)
    named = {name: stored(leaf) for name, leaf in flatten(grads).items()}
    absent = [name for name, leaf in named.items() if leaf is None]
    results = {"loss": loss, "token_loss": token_loss, "logits": logits, "aux_loss": aux_loss}
    results = {name: stored(value) for name, value in results.items() if value is not None}
    if size > 1:
        declared.update(cp_size=size, cp_rank=rank)
        results["token_index"] = local.token_index
    if not np.array_equal(local.batch_index, np.arange(fixture.shape[0])):
        results["batch_index"] = local.batch_index
    path = os.fspath(out)
    if not path.endswith(".h5"):
        path = rank_path(path, rank) if size > 1 else os.path.join(path, "whole.h5")
    ran = {name: np.asarray(value) for name, value in (inputs_ran or {}).items()} | _digests(fixture, params)
    write_dump(path, fixture_id=fixture.id, implementation=implementation, results=results, ran=ran,
               grads={name: leaf for name, leaf in named.items() if leaf is not None}, grad_absent=absent or None,
               trace={name: stored(value) for name, value in (trace or {}).items()}, layout=layout, exchange=exchange,
               loss_kind=loss_kind, loss_count=local.loss_count, gradients=gradients,
               compute_dtype=compute_dtype or _dtype_of(grads), versions=f"jax {jax.__version__}", **declared)


def run_attention(function, out, *, fixture, dtype=jnp.float64, implementation="jax", **declared):
    """Run function(q, k, v), which gives out [B,T,H,D] or (out, lse [B,T,H]), forward and backward on a fixture of kind
    "attention", and write the file out. Mask, documents and scale are the function's own business: fixture has them."""
    given = fixture.local(dtype=np.float64)
    q, k, v, dout = (_array(getattr(given, name), dtype) for name in ("q", "k", "v", "dout"))

    def with_lse(q, k, v):
        result = function(q, k, v)
        return result if isinstance(result, tuple) else (result, None)

    output, pull, lse = jax.vjp(with_lse, q, k, v, has_aux=True)
    dq, dk, dv = pull(dout.astype(output.dtype))
    write_attention(out, fixture_id=fixture.id, implementation=implementation, out=stored(output), dq=stored(dq),
                    dk=stored(dk), dv=stored(dv), lse=None if lse is None else stored(lse),
                    compute_dtype=declared.pop("compute_dtype", str(q.dtype)), versions=f"jax {jax.__version__}",
                    **declared)


def flatten(tree):
    """name -> leaf; None is a leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {".".join(_key(key) for key in path): leaf for path, leaf in leaves}


def stored(value):
    """An array as write_dump takes it: whole, or of one that is spread over processes the part that this one holds."""
    if value is None or not isinstance(value, jax.Array) or value.is_fully_addressable:
        return None if value is None else np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    parts = {str(shard.index): shard for shard in value.addressable_shards}
    if len(parts) != 1:
        raise ValueError(f"an array of shape {value.shape}: expected one part of it in this process, found {len(parts)};"
                         " a dump's file holds one part of each tensor")
    shard = next(iter(parts.values()))
    offset = tuple(part.start or 0 for part in shard.index)
    held = {str(index) for index in value.sharding.devices_indices_map(value.shape).values()}
    return Slice(np.asarray(shard.data), value.shape, offset, len(held) < len(value.sharding.device_set))


def _key(key):
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _array(value, dtype):
    array = jnp.asarray(value, dtype)
    if array.dtype != dtype:
        raise ValueError(f"jax: expected {jnp.dtype(dtype)}, found {array.dtype}:"
                         " jax.config.update(\"jax_enable_x64\", True) comes before all else")
    return array


def _digests(fixture, params):
    return {f"weights/{name}": digest(np.asarray(leaf, np.float64)) for name, leaf in flatten(params or {}).items()
            if name in fixture.weights and fixture.weights[name].shape == leaf.shape}


def _dtype_of(tree):
    return str(next(leaf.dtype for leaf in flatten(tree).values() if leaf is not None))
