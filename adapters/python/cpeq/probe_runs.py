"""Runs of a probed step in memory, and what changed from one to the other, over all ranks."""

import dataclasses
import math

import numpy as np
import torch

from cpeq.batch import local_batch
from cpeq.recorder import Recorder, place_in
from cpeq.tensors import dtype_name, is_sharded, named

ROUNDINGS, NOISE_FACTOR = 16, 3
REPEATS, REPEAT_FACTOR = 2, 3
DIRECTIONS = 16


@dataclasses.dataclass(frozen=True)
class Change:
    """The change of a tensor, as a share of its norm, of all the one that is furthest beyond its limit; and where."""

    size: float = 0.0
    limit: float = 0.0
    place: str = ""

    @property
    def ok(self):
        return self.size <= self.limit

    @property
    def said(self):
        return "bit for bit" if self.size == 0 else f"{self.place} by {self.size:.1e} of its norm"


class ProbeRecorder(Recorder):
    """Keeps tensors, writes nothing; the model's gradients are removed when it is watched."""

    keep = staticmethod(lambda value: value.detach().clone() if isinstance(value, torch.Tensor) else value)

    def watch(self, model):
        model.zero_grad(set_to_none=True)
        return super().watch(model)

    def _write(self):
        if self.model is None or not {"logits", "token_loss"} & self._results.keys():
            raise ValueError("probe: expected a step that calls r.watch, and r.logits or r.token_loss, found none of"
                             " these")
        self.gradients = {name: _local(parameter.grad).detach().clone()
                          for name, parameter in named(self.model.named_parameters(), self.fixture)
                          if parameter.grad is not None}


@dataclasses.dataclass
class Run:
    """What a step gave: by position, tensors [B,S,...] of this rank; gradients by name; and where its positions stand.

    noise    name -> norm of what disturbed rounding changes, the largest of several
    """

    positions: dict
    gradients: dict
    index: np.ndarray
    noise: dict = dataclasses.field(default_factory=dict)


class Runs:
    """Calls a step with one batch after the other."""

    def __init__(self, step, group, layout, gradients, dtype):
        self.step, self.layout, self.gradients, self.dtype = step, layout, gradients, dtype
        distributed = torch.distributed
        running = distributed.is_available() and distributed.is_initialized()
        self.group = group or (distributed.group.WORLD if running else None)
        self.rank, self.size = place_in(self.group) if self.group is not None else (0, 1)
        self.roundings = ROUNDINGS * torch.finfo(dtype).eps
        self.repeat = {}

    def run(self, batch, disturbances=0):
        run = self._once(batch, None)
        for seed in range(1, disturbances + 1):
            other = self._once(batch, seed)
            for name, value in self._all(run):
                change = _norm(self._of(other, name) - value)
                run.noise[name] = max(run.noise.get(name, 0.0), change)
        return run

    def _once(self, batch, seed):
        local = local_batch(batch, self.rank, self.size, self.layout)
        declared = {"compute_dtype": dtype_name(self.dtype), "gradients": self.gradients}
        recorder = ProbeRecorder(None, batch, "probe", local, None, declared)
        torch.manual_seed(0)
        with recorder.set(dtype=self.dtype, disturbance=seed) as r:
            self.step(r)
        positions = {name: _wide(r._results[name]) for name in ("logits", "token_loss") if name in r._results}
        index = np.broadcast_to(local.token_index, (batch.shape[0], local.token_index.shape[-1]))
        return Run(positions, {name: _wide(value) for name, value in r.gradients.items()}, index)

    def repeated(self, batch):
        """The change of the same step run again. How much each tensor changes is what later changes may be."""
        first, worst = self.run(batch), Change()
        for _ in range(REPEATS):
            again = self.run(batch)
            for name, value in self._all(first):
                size = self._share(_norm(self._of(again, name) - value), _norm(value))
                self.repeat[name] = max(self.repeat.get(name, 0.0), size)
                worst = _larger(worst, Change(size, self.roundings, _called(name, first)))
        self.repeat = {name: REPEAT_FACTOR * max(self._gathered(size)) for name, size in sorted(self.repeat.items())}
        return self._worst(worst)

    def change(self, first, second, where):
        """At positions of a mask [B,T] of the whole batch, and of every gradient, beyond what repetition changes."""
        worst = Change()
        for name, value in first.positions.items():
            held = torch.from_numpy(_at(where, first.index)).to(value.device)
            off = (second.positions[name] - value)[held]
            size = self._share(_norm(off), _norm(value[held]))
            worst = _larger(worst, Change(size, self.repeat.get(name, 0.0), f"{name}{self._first(off, held, first.index)}"))
        if not worst.ok:  # then gradients change too, and say less
            return self._worst(worst)
        for name, value in first.gradients.items():
            size = self._share(_norm(self._of(second, name) - value), _norm(value))
            worst = _larger(worst, Change(size, self.repeat.get(name, 0.0), _called(name, first)))
        return self._worst(worst)

    def moved(self, first, second, where):
        """Whether anything changed at positions of a mask, on any rank."""
        name = next(iter(first.positions))
        held = torch.from_numpy(_at(where, first.index)).to(first.positions[name].device)
        return any(self._gathered(bool((first.positions[name] != second.positions[name])[held].any())))

    def sum_change(self, whole, parts):
        """Of gradients alone: those of the whole against the sum of the parts'."""
        total = {name: sum(self._of(part, name) for part in parts) for name in whole.gradients}
        return self._gradient_change(whole, total)

    def moved_change(self, packed, apart, homes):
        """Of positions that stand elsewhere in another batch, homes [B,T,2] says where from; and of the gradients."""
        worst = Change()
        for name in packed.positions:
            one, other = self._fingerprints(packed, name), self._fingerprints(apart, name)
            moved = {tuple(homes[place]): value for place, value in other.items() if homes[place][0] >= 0}
            pairs = [(one[place], moved[place]) for place in sorted(moved) if place in one]
            one, other = (np.stack(side) for side in zip(*pairs))
            scale = float(np.linalg.norm(one))
            noise = self._share(math.hypot(*self._gathered(packed.noise.get(name, 0.0))), scale)
            size = self._share(float(np.linalg.norm(other - one)), scale)
            worst = _larger(worst, Change(size, self._limit(noise), name))
        total = self._added(packed.gradients), self._added(apart.gradients)
        scaled = dataclasses.replace(packed, gradients=total[0])
        return _larger(worst, self._gradient_change(scaled, total[1]))

    def _gradient_change(self, whole, total):
        worst, largest = Change(), max((_norm(value) for value in whole.gradients.values()), default=0.0)
        for name, value in whole.gradients.items():
            scale = max(_norm(value), largest / 1000)
            other = total.get(name, torch.zeros_like(value))
            noise = self._share(whole.noise.get(name, 0.0), scale)
            size = self._share(_norm(other - value), scale)
            worst = _larger(worst, Change(size, self._limit(noise), _called(name, whole)))
        return self._worst(worst)

    def _limit(self, noise):
        """What another order of the same sums may change, where disturbed rounding changes this much."""
        return max(self.roundings, NOISE_FACTOR * noise)

    def _added(self, gradients):
        """Summed over ranks, where the step leaves that to others."""
        if self.size == 1 or self.gradients == "reduced":
            return gradients
        added = {name: gradients[name].clone() for name in sorted(gradients)}
        for value in added.values():
            torch.distributed.all_reduce(value, group=_process_group(self.group))
        return added

    def _fingerprints(self, run, name):
        """(row, position) -> some numbers that change with the values there, of all ranks."""
        value = run.positions[name]
        if value.ndim == 2:
            value = value[..., None]
        signs = torch.randint(0, 2, (value.shape[-1], DIRECTIONS), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
        value = (value @ signs.to(value)).double().cpu().numpy()
        own = {(row, int(place)): value[row, column] for (row, column), place in np.ndenumerate(run.index) if place >= 0}
        return {place: numbers for part in self._gathered(own) for place, numbers in part.items()}

    def _all(self, run):
        return [*run.positions.items(), *run.gradients.items()]

    def _of(self, run, name):
        """A tensor of a run; a gradient that is None is zero."""
        if name in run.positions:
            return run.positions[name]
        return run.gradients.get(name, torch.zeros(()))

    def _share(self, size, norm):
        share = 0.0 if size == 0 else size / norm if norm > 0 else math.inf
        return share if math.isfinite(share) else math.inf

    def _first(self, off, held, index):
        """Where the first change stands, in words."""
        changed = off.flatten(1).abs().sum(1) > 0 if off.ndim > 1 else off != 0
        if not changed.any():
            return ""
        places = held.nonzero()[changed.nonzero()[0, 0]].tolist()
        return f" (first at row {places[0]}, position {int(index[places[0], places[1]])})"

    def _gathered(self, item):
        if self.size == 1:
            return [item]
        items = [None] * self.size
        torch.distributed.all_gather_object(items, item, group=_process_group(self.group))
        return items

    def _worst(self, change):
        worst = Change()
        for other in self._gathered(change):
            worst = _larger(worst, other)
        return worst


def _larger(one, other):
    """The one that is further beyond what it may be."""
    return other if _excess(other) > _excess(one) else one


def _excess(change):
    return change.size / max(change.limit, 1e-300)


def _called(name, run):
    return name if name in run.positions else f"the gradient of {name}"


def _process_group(group):
    return group.get_group() if hasattr(group, "mesh_dim_names") else group


def _local(tensor):
    return tensor.to_local() if is_sharded(tensor) else tensor


def _wide(tensor):
    tensor = _local(tensor)
    return tensor if tensor.dtype is torch.float64 else tensor.float()


def _norm(tensor):
    return float(torch.linalg.vector_norm(tensor.double()))


def _at(where, index):
    """A mask of the whole batch at this rank's positions, false at padding that was added."""
    real = index >= 0
    return np.take_along_axis(np.broadcast_to(where, (len(index), where.shape[-1])), np.maximum(index, 0), axis=1) & real
