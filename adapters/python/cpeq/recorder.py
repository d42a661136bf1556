"""record: run a step inside it, and what the step produced is written as a dump of this rank."""

import dataclasses
import inspect
import os
import platform
import sys

import numpy as np
import torch

from cpeq.batch import local_batch
from cpeq.dump import BFloat16, digest, rank_path, write_dump
from cpeq.fixture import Fixture, FormatError
from cpeq.float64 import NarrowWatch

WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
ADAPTER_PREFIX = "base_model.model."
WATCHED_INPUTS = ("input_ids", "inputs_embeds", "position_ids", "labels", "shift_labels")


def record(model, *, fixture, out, group=None, rank=0, size=1, layout="contiguous", exchange=None, loss="global",
           gradients="reduced", grad_scale=1.0, rows=None, implementation=None, compute_dtype=None, **declared):
    """Context manager that writes one dump when its block ends without an exception.

    fixture        a Fixture, or the path of one
    out            a file ending in .h5, or a directory (rank-0003.h5 in it, or whole.h5 if size is 1)
    group          the context-parallel group: a torch process group, or a DeviceMesh of one dimension
    rank, size     of that group, where there is no group to ask; with size 1 the dump is of the whole step
    loss           what is handed to .loss(): "global", "share" (the ranks' sum is the loss), "mean" (their mean is),
                   "partial_sum" (it is the sum of token losses) or "local_mean"
    gradients      what parameters hold at the end: "reduced", "partial" (the ranks' sum is right) or "mean" (theirs is)
    grad_scale     stored gradient / true gradient, e.g. a loss scale
    rows           rows of the batch that this rank runs; all of them if absent
    compute_dtype  "float64", "float32" or "bfloat16"; the parameters' own if absent
    declared       any further attribute of the dump: dp_size, dp_rank, reduce_dtype, ...
    """
    fixture = fixture if isinstance(fixture, Fixture) else Fixture(fixture)
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    if group is not None:
        rank, size = place_in(group)
    if size > 1:
        declared.update(cp_size=size, cp_rank=rank)
    declared.update(layout=layout, exchange=exchange, loss_kind=loss, gradients=gradients, grad_scale=grad_scale,
                    compute_dtype=compute_dtype or _dtype_name(parameter.dtype),
                    param_dtype=_dtype_name(parameter.dtype), versions=_versions())
    local = local_batch(fixture, rank, size, layout, rows)
    path = os.fspath(out)
    if not path.endswith(".h5"):
        path = rank_path(path, rank) if size > 1 else os.path.join(path, "whole.h5")
    return Recorder(model, fixture, path, local, implementation or type(model).__qualname__, declared)


def place_in(group):
    """This process's rank in a process group or in a DeviceMesh of one dimension, and its size."""
    if not hasattr(group, "mesh_dim_names"):
        return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    if group.ndim != 1:
        raise ValueError(f"group: expected a DeviceMesh of one dimension, as mesh[\"cp\"], found one of {group.ndim}:"
                         f" {group.mesh_dim_names}")
    return group.get_local_rank(), group.size()


class Recorder:
    """Collects the results of one step; made by record()."""

    def __init__(self, model, fixture, path, local, implementation, declared):
        self.model, self.fixture, self.path = model, fixture, path
        self._local, self._implementation, self._declared = local, implementation, declared
        self._results, self._trace, self._ran, self._embeds = {}, {}, {}, None
        self._inputs, self._forwards = {}, 0
        self._watch = NarrowWatch() if declared["compute_dtype"] == "float64" else None

    def batch(self):
        """This rank's LocalBatch as tensors; the gradient of its inputs_embeds is recorded."""
        parameter = next(p for p in self.model.parameters() if p.is_floating_point())

        def moved(value):
            if not isinstance(value, np.ndarray):
                return value
            kind = parameter.dtype if value.dtype.kind == "f" else None
            return torch.from_numpy(value.astype(np.float64) if kind else value).to(parameter.device, kind)

        fields = {f.name: moved(getattr(self._local, f.name)) for f in dataclasses.fields(self._local)}
        if fields["inputs_embeds"] is not None:
            self._embeds = fields["inputs_embeds"].requires_grad_(True)
        return type(self._local)(**fields)

    def loss(self, value, count=None):
        """The step's loss, of the declared kind; count: targets in it, where they are not this rank's own."""
        self._results["loss"] = _array(value)
        self._declared["loss_count"] = self._local.loss_count if count is None else int(count)

    def aux_loss(self, value):
        self._results["aux_loss"] = _array(value)

    def token_loss(self, value):
        self._put("token_loss", value, ndim=2)

    def logits(self, value):
        self._put("logits", value, ndim=3)

    def trace(self, register, value):
        self._trace[register] = _array(value)

    def inputs_embeds(self, tensor):
        """Take the gradient of this tensor as that of this rank's input embeddings (batch() does so by itself)."""
        self._embeds = tensor

    def __enter__(self):
        self._ran.update(_weight_digests(self.model, self.fixture))
        self._hook = self.model.register_forward_pre_hook(self._note_inputs, with_kwargs=True)
        if self._watch:
            self._watch.__enter__()
        return self

    def __exit__(self, kind, value, trace):
        if self._watch:
            self._watch.__exit__(kind, value, trace)
        self._hook.remove()
        if kind is None:
            self._write()

    def _note_inputs(self, module, args, kwargs):
        """Keep the inputs of the first forward that stand token by token as token_index does; those of several
        micro-batches, or of a batch that the model itself cuts, have no place in a dump."""
        self._forwards += 1
        given = {**dict(zip(inspect.signature(module.forward).parameters, args)), **kwargs}
        if self._forwards == 1:
            self._inputs = {name: _array(given[name]) for name in WATCHED_INPUTS
                            if isinstance(given.get(name), torch.Tensor) and self._is_local(given[name])}

    def _is_local(self, value):
        rows, length = len(self._local.batch_index), self._local.token_index.shape[-1]
        return value.ndim >= 2 and value.shape[0] in (1, rows) and value.shape[1] == length

    def _put(self, name, value, ndim):
        expected = [len(self._local.batch_index), self._local.token_index.shape[-1]]
        if value.ndim != ndim or list(value.shape[:2]) != expected:
            raise FormatError(f"{self.path}: /{name}: expected rows and positions {expected} of this rank's batch,"
                              f" found shape {list(value.shape)}")
        self._results[name] = _array(value)

    def _write(self):
        grads, absent = _gradients(self.model, self.fixture)
        if self._embeds is not None and self._embeds.grad is not None:
            grads["inputs_embeds"] = _array(self._embeds.grad)
        if self._forwards == 1:
            self._ran.update(self._inputs)
        if self._watch and self._watch.narrowed:
            self._declared["islands"] = "float32"
        if "cp_rank" in self._declared:
            self._results["token_index"] = self._local.token_index
        if not np.array_equal(self._local.batch_index, np.arange(self.fixture.shape[0])):
            self._results["batch_index"] = self._local.batch_index
        write_dump(self.path, fixture_id=self.fixture.id, implementation=self._implementation,
                   results=self._results, grads=grads, trace=self._trace, ran=self._ran,
                   grad_absent=absent or None, **self._declared)


def _gradients(model, fixture):
    """name -> gradient, and the names of parameters that have none though they should."""
    grads, absent = {}, []
    for name, parameter in _named(model.named_parameters(), fixture):
        if parameter.grad is not None:
            grads[name] = _array(parameter.grad)
        elif parameter.requires_grad:
            absent.append(name)
    return grads, absent


def _weight_digests(model, fixture):
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {f"weights/{name}": digest(_array(tensor.detach().double()))
            for name, tensor in _named(tensors, fixture) if name in fixture.weights}


def _named(pairs, fixture):
    """The pairs under the fixture's names: what wrappers put into a name is dropped."""
    found = {}
    for name, tensor in pairs:
        plain = name if name in fixture.weights else stripped(name)
        if plain in found:
            raise ValueError(f"model: {name}: expected one tensor named {plain} without its wrappers, found two")
        found[plain] = tensor
    return found.items()


def stripped(name):
    return ".".join(part for part in name.removeprefix(ADAPTER_PREFIX).split(".") if part not in WRAPPERS
                    ).removeprefix(ADAPTER_PREFIX)


def _array(value):
    """Anything a step produces as what write_dump takes; a sharded tensor is gathered, by all of its ranks."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    value = value.detach().cpu().contiguous()
    return BFloat16(value.view(torch.uint16).numpy()) if value.dtype is torch.bfloat16 else value.numpy().copy()


def _dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def _versions():
    known = [f"{name} {sys.modules[name].__version__}" for name in ("torch", "transformers") if name in sys.modules]
    return ", ".join([*known, f"python {platform.python_version()}"])
