"""record: run a step inside it, and what the step produced is written as a dump of this rank."""

import dataclasses
import os
import platform
import sys

import numpy as np
import torch

from cpeq import registers
from cpeq.batch import local_batch
from cpeq.disturbance import disturb
from cpeq.dump import rank_path, write_dump
from cpeq.fixture import Fixture, FormatError
from cpeq.float64 import NarrowWatch
from cpeq.tensors import arguments, dtype_name, is_sharded, named, stored, stored_slice, stripped, weight_digests

WATCHED_INPUTS = ("input_ids", "inputs_embeds", "position_ids", "labels", "shift_labels")

__all__ = ["Recorder", "place_in", "record", "stripped"]


def record(model=None, *, fixture, out, group=None, rank=0, size=1, layout="contiguous", exchange=None, loss="global",
           gradients="reduced", grad_scale=1.0, grad_getter=None, before_reduction=False, trace=False, digests=True,
           rows=None, implementation=None, compute_dtype=None, **declared):
    """Context manager that writes one dump when its block ends without an exception.

    model          what is run; where it is only made inside the block, hand it to .watch() there
    fixture        a Fixture, or the path of one
    out            a file ending in .h5, or a directory (rank-0003.h5 in it, or whole.h5 if size is 1)
    group          the context-parallel group: a torch process group, or a DeviceMesh of one dimension
    rank, size     of that group, where there is no group to ask; with size 1 the dump is of the whole step
    loss           what is handed to .loss(): "global", "share" (the ranks' sum is the loss), "mean" (their mean is),
                   "partial_sum" (it is the sum of token losses) or "local_mean"
    gradients      what parameters hold at the end: "reduced", "partial" (the ranks' sum is right) or "mean" (theirs is).
                   Of a DTensor each rank writes the slice that it holds, and nothing is gathered: "reduced"
    grad_scale     stored gradient / true gradient, e.g. a loss scale
    grad_getter    function of a parameter's name and the parameter that gives its gradient, or None, where that is held
                   elsewhere than in .grad, e.g. lambda name, p: deepspeed.utils.safe_get_full_grad(p)
    before_reduction   take each gradient where autograd hands it to the parameter, before DDP or anybody reduces it, and
                   declare these: gradients="partial"
    trace          True: also what crosses the layers, and its gradients; or a dict, register -> module whose output it is
    digests        False: no hashes of the weights, which take time in a large model
    rows           rows of the batch that this rank runs; all of them if absent
    compute_dtype  "float64", "float32" or "bfloat16"; the parameters' own if absent
    declared       any further attribute of the dump: dp_size, dp_rank, reduce_dtype, strip, name_map, ...
    """
    fixture = fixture if isinstance(fixture, Fixture) else Fixture(fixture)
    if before_reduction and gradients != "partial":
        raise ValueError(f"gradients: expected \"partial\" with before_reduction, found \"{gradients}\"")
    if group is not None:
        rank, size = place_in(group)
    if size > 1:
        declared.update(cp_size=size, cp_rank=rank)
    declared.update(layout=layout, exchange=exchange, loss_kind=loss, gradients=gradients, grad_scale=grad_scale,
                    compute_dtype=compute_dtype)
    local = local_batch(fixture, rank, size, layout, rows)
    path = os.fspath(out)
    if not path.endswith(".h5"):
        row_of_ranks = int(declared.get("dp_rank") or 0)
        path = rank_path(path, row_of_ranks * size + rank) if size > 1 else os.path.join(path, "whole.h5")
    how = How(grad_getter, before_reduction, trace, digests, size * int(declared.get("dp_size") or 1))
    return Recorder(model, fixture, path, local, implementation, declared, how)


def place_in(group):
    """This process's rank in a process group or in a DeviceMesh of one dimension, and its size."""
    if not hasattr(group, "mesh_dim_names"):
        return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    if group.ndim != 1:
        raise ValueError(f"group: expected a DeviceMesh of one dimension, as mesh[\"cp\"], found one of {group.ndim}:"
                         f" {group.mesh_dim_names}")
    return group.get_local_rank(), group.size()


@dataclasses.dataclass(frozen=True)
class How:
    """The arguments of record() of these names, and the number of ranks that write a dump."""

    grad_getter: object = None
    before_reduction: bool = False
    trace: object = False
    digests: bool = True
    ranks: int = 1


class Recorder:
    """Collects the results of one step; made by record().

    dtype, truth    what a step of assert_cp_equal or probe shall run in, and whether this run is the truth
    disturbance     seed of disturbed rounding, or None
    on_watch        function of a model that is about to be watched, or None
    """

    dtype, truth, disturbance, on_watch = torch.float64, False, None, None
    keep = staticmethod(stored)

    def __init__(self, model, fixture, path, local, implementation, declared, how=How()):
        self.model, self.fixture, self.path = None, fixture, path
        self._given_model, self._how = model, how
        self._local, self._implementation, self._declared = local, implementation, declared
        self._results, self._trace, self._digests, self._embeds = {}, {}, {}, None
        self._inputs, self._forwards, self._hooks, self._before, self._float64 = {}, 0, [], {}, None

    def set(self, **settings):
        """Set some of its attributes; returns itself."""
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def watch(self, model):
        """Take this model's gradients when the block ends, and note what reaches its forward."""
        self.model = model
        if self.on_watch is not None:
            self.on_watch(model)
        parameter = _first(model)
        self._declared["compute_dtype"] = self._declared["compute_dtype"] or dtype_name(parameter.dtype)
        self._declared["param_dtype"] = dtype_name(parameter.dtype)
        self._check_names()
        if self._how.digests:
            self._digests = weight_digests(model, self.fixture)
        self._hooks.append(model.register_forward_pre_hook(self._note_inputs, with_kwargs=True))
        if self._how.before_reduction:
            self._watch_gradients()
        if self._how.trace:
            modules = self._how.trace if isinstance(self._how.trace, dict) else None
            self._hooks += registers.watch(model, modules, self._keep_register)
        if self.disturbance is not None:
            self._hooks += disturb(model, self.disturbance)
        return model

    def batch(self, device=None):
        """This rank's LocalBatch as tensors; the gradient of its inputs_embeds is recorded."""
        parameter = None if self.model is None else _first(self.model)
        device = device or (None if parameter is None else parameter.device)
        dtype = torch.get_default_dtype() if parameter is None else parameter.dtype

        def moved(value):
            if not isinstance(value, np.ndarray):
                return value
            kind = dtype if value.dtype.kind == "f" else None
            return torch.from_numpy(value.astype(np.float64) if kind else value).to(device, kind)

        fields = {f.name: moved(getattr(self._local, f.name)) for f in dataclasses.fields(self._local)}
        if fields["inputs_embeds"] is not None:
            self._embeds = fields["inputs_embeds"].requires_grad_(True)
        return type(self._local)(**fields)

    def loss(self, value, count=None):
        """The step's loss, of the declared kind; count: targets in it, where they are not this rank's own."""
        self._results["loss"] = self.keep(value)
        self._declared["loss_count"] = self._local.loss_count if count is None else int(count)

    def aux_loss(self, value):
        self._results["aux_loss"] = self.keep(value)

    def token_loss(self, value):
        self._put(self._results, "token_loss", value, ndim=2)

    def logits(self, value, index=None):
        """[B,S,V]; or [n,V] of some positions only, with index int64 [n,2]: global row and position of each."""
        if index is None:
            self._put(self._results, "logits", value, ndim=3)
        else:
            self._results.update(logits=self.keep(value), logits_index=self.keep(index))

    def logsumexp(self, value, target_logit):
        """What losses that never hold all logits keep of each position: log sum exp, and its target's logit."""
        self._put(self._results, "logsumexp", value, ndim=2)
        self._put(self._results, "target_logit", target_logit, ndim=2)

    def trace(self, register, value):
        self._trace[register] = self.keep(value)

    def inputs_embeds(self, tensor):
        """Take the gradient of this tensor as that of this rank's input embeddings (batch() does so by itself)."""
        self._embeds = tensor

    def __enter__(self):
        if self._given_model is not None:
            self.watch(self._given_model)
        if self._declared["compute_dtype"] == "float64":
            self._float64 = NarrowWatch()
            self._float64.__enter__()
        return self

    def __exit__(self, kind, value, trace):
        if self._float64:
            self._float64.__exit__(kind, value, trace)
        for hook in self._hooks:
            hook.remove()
        if kind is None:
            self._write()

    def _check_names(self):
        known = self.fixture.weights
        if not known or {"name_map", "strip"} & self._declared.keys():
            return
        found = [name for name, _ in named(self.model.named_parameters(), self.fixture)]
        if not any(name in known for name in found):
            raise ValueError(f"model: expected parameters as {self.fixture.path} has them, such as {next(iter(known))},"
                             f" found none of them, but {found[0] if found else 'nothing'}; name_map says what is what")

    def _note_inputs(self, module, args, kwargs):
        """Keep the inputs of the first forward that stand token by token as token_index does; those of several
        micro-batches, or of a batch that the model itself cuts, have no place in a dump."""
        self._forwards += 1
        if self._forwards == 1:
            given = arguments(module, args, kwargs)
            self._inputs = {name: stored(given[name]) for name in WATCHED_INPUTS
                            if isinstance(given.get(name), torch.Tensor) and self._is_local(given[name])}

    def _watch_gradients(self):
        for name, parameter in named(self.model.named_parameters(), self.fixture):
            if is_sharded(parameter):
                raise ValueError(f"model: {name}: expected a parameter whose whole gradient autograd hands over, found a"
                                 " DTensor, which is reduced first; before_reduction cannot see it")
            if parameter.requires_grad:
                self._hooks.append(parameter.register_hook(lambda gradient, name=name: self._add(name, gradient)))

    def _add(self, name, gradient):
        before = self._before.get(name)
        self._before[name] = gradient.detach().clone() if before is None else before + gradient.detach()

    def _keep_register(self, register, value):
        self._put(self._trace, register, value, ndim=3)

    def _is_local(self, value):
        rows, length = len(self._local.batch_index), self._local.token_index.shape[-1]
        return value.ndim >= 2 and value.shape[0] in (1, rows) and value.shape[1] == length

    def _put(self, place, name, value, ndim):
        expected = [len(self._local.batch_index), self._local.token_index.shape[-1]]
        if value.ndim != ndim or list(value.shape[:2]) != expected:
            raise FormatError(f"{self.path}: /{name}: expected rows and positions {expected} of this rank's batch,"
                              f" found shape {list(value.shape)}")
        place[name] = self.keep(value)

    def _gradient(self, name, parameter):
        if self._how.before_reduction:
            return self._before.get(name)
        return self._how.grad_getter(name, parameter) if self._how.grad_getter else parameter.grad

    def _gradients(self):
        """name -> gradient, and the names of parameters that have none though they should."""
        grads, absent = {}, []
        for name, parameter in named(self.model.named_parameters(), self.fixture):
            gradient = self._gradient(name, parameter)
            if gradient is None:
                absent += [name] if parameter.requires_grad else []
                continue
            if is_sharded(gradient) and self._declared["gradients"] != "reduced":
                raise ValueError(f"gradients: expected \"reduced\", since {name} is a DTensor and its ranks hold slices"
                                 f" of a reduced gradient, found \"{self._declared['gradients']}\"; grad_scale says what"
                                 " a mean over ranks makes of it")
            value = stored_slice(gradient, self._how.ranks)
            if value is not None:
                grads[name] = value
        return grads, absent

    def _write(self):
        if self.model is None:
            raise ValueError("record: expected a model, given to record() or to .watch(), found none")
        grads, absent = self._gradients()
        if self._embeds is not None and self._embeds.grad is not None:
            grads["inputs_embeds"] = stored(self._embeds.grad)
        ran = self._inputs if self._forwards == 1 else {}
        if self.fixture.weights:
            ran = {**ran, **self._digests}
        if self._float64 and self._float64.narrowed:
            self._declared["islands"] = "float32"
        if "cp_rank" in self._declared:
            self._results["token_index"] = self._local.token_index
        if not np.array_equal(self._local.batch_index, np.arange(self.fixture.shape[0])):
            self._results["batch_index"] = self._local.batch_index
        write_dump(self.path, fixture_id=self.fixture.id, results=self._results, grads=grads, trace=self._trace,
                   implementation=self._implementation or type(self.model).__qualname__, ran=ran,
                   unread=None if self.fixture.weights else self._digests,
                   grad_absent=absent or None, versions=_versions(), **self._declared)


def _first(model):
    return next(p for p in model.parameters() if p.is_floating_point())


def _versions():
    known = [f"{name} {sys.modules[name].__version__}" for name in ("torch", "transformers") if name in sys.modules]
    return ", ".join([*known, f"python {platform.python_version()}"])
