"""probe: questions to a training step that have an answer without knowing the right result."""

import dataclasses

import numpy as np
import torch

from cpeq.batch import IGNORED, documents, shift_labels
from cpeq.fixture import BatchAlone
from cpeq.probe_runs import Runs
from cpeq.verdict import Different

KINDS = ("twice", "future", "padding", "documents", "micro_batches", "packing")


@dataclasses.dataclass(frozen=True)
class Answer:
    """ok: True, False, or None where the batch cannot be asked; sentence: what was found, in words."""

    probe: str
    ok: object
    sentence: str

    def __str__(self):
        return f"{'not asked' if self.ok is None else 'ok' if self.ok else 'WRONG':9}  {self.probe:13}  {self.sentence}"


class Answers(list):
    """The Answer of every probe."""

    @property
    def ok(self):
        return all(answer.ok is not False for answer in self) and any(answer.ok for answer in self)

    def __str__(self):
        return "\n".join(map(str, self))

    def check(self):
        """Raises Different, with all sentences, unless every probe that could be asked is answered well."""
        __tracebackhide__ = True
        if not self.ok:
            raise Different(str(self))
        return self


def probe(step, *, batch, dtype=torch.float64, group=None, layout="contiguous", gradients="partial", probes=KINDS, seed=0,
          config=None):
    """Ask a training step of any size, dtype and kernel what needs no truth; returns Answers.

        def step(r):                              # as for assert_cp_equal; under torchrun on all ranks
            model, b = r.watch(model), r.batch()
            ...
            loss.backward()
            r.loss(loss), r.logits(logits)

        cpeq.probe(step, batch={"input_ids": ids, "labels": ids, "attention_mask": mask}, dtype=torch.bfloat16).check()

    step is called some twenty times, each time with other contents of the batch: it must look at `r.batch()`, or cut
    `r.fixture.batch` itself, and divide its loss by `r.batch().num_items`. `r.watch` removes the gradients of the model,
    which may be the same one every time. `r.logits` or `r.token_loss` is needed; logits see more.

    twice           the same step again gives the same
    future          with other tokens from a position on, nothing before it changes, nor any gradient of its loss
    padding         nothing real changes with other tokens at padding
    documents       no packed document changes with other tokens in the others
    micro_batches   the gradients of parts of the batch add up to those of the whole
    packing         packed documents give what each gives in a row of its own

    batch       name -> array: input_ids or inputs_embeds, labels or shift_labels, perhaps attention_mask, position_ids,
                document_ids. What it lacks, padding or documents, cannot be asked
    dtype       what the step computes in. Other tokens may change nothing beyond what repetition changes, which mostly is
                nothing; other orders of the same sums some roundings, or what disturbed rounding changes
    group, layout, gradients    of step, as in cpeq.record; gradients "partial" or "mean" are added up over the ranks
    """
    unknown = set(probes) - set(KINDS)
    if unknown:
        raise ValueError(f"probes: expected some of {', '.join(KINDS)}, found {', '.join(sorted(unknown))}")
    runs = Runs(step, group, layout, gradients, dtype)
    batch = _whole(batch, config)
    asked = Asked(runs, batch, np.random.default_rng(seed))
    found = [getattr(asked, f"ask_{kind}")() for kind in KINDS if kind in probes or kind == "twice"]
    return Answers(answer for answer in found if answer.probe in probes)


def _whole(batch, config):
    arrays = {name: value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
              for name, value in batch.items()}
    given = BatchAlone(arrays, config)
    targets = np.where(documents(given) >= 0, shift_labels(given), IGNORED)
    arrays = {name: value for name, value in arrays.items() if name not in ("labels", "shift_labels")}
    arrays.setdefault("num_items_in_batch", np.int64((targets != IGNORED).sum()))
    return BatchAlone({**arrays, "shift_labels": targets}, config)


class Asked:
    """The probes of one step and one batch."""

    def __init__(self, runs, batch, random):
        self.runs, self.batch, self.random = runs, batch, random
        self.documents = documents(batch)
        self.targets = batch.batch["shift_labels"]

    def ask_twice(self):
        change = self.runs.repeated(self.batch)
        if change.size == 0:
            return Answer("twice", True, "the same step again gives the same, bit for bit")
        if change.ok:
            return Answer("twice", True, f"the same step again gives the same but for rounding: {change.said}")
        return Answer("twice", False, f"the same step again gives something else: {change.said}; dropout, a state that it"
                                      " keeps, or gradients that were not removed")

    def ask_future(self):
        length = self.batch.shape[1]
        begins = sorted({max(1, length // 4), length // 2 + 1, length - 1} & set(range(1, length)))
        looked = False
        for begin in begins:
            future = (np.arange(length) >= begin) & (self.documents >= 0)
            base, change, moved = self._poison(future, targets=~(np.arange(length) >= begin))
            looked |= moved
            if not change.ok:
                return Answer("future", False, f"what stands before position {begin} changes with the tokens from there on:"
                                               f" {change.said}; a query sees keys after it")
        if not looked:
            return Answer("future", False, "nothing changes anywhere with other tokens: the step does not look at r.batch()"
                                           " nor at r.fixture.batch")
        return Answer("future", True, f"nothing before positions {', '.join(map(str, begins))} changes with the tokens from"
                                      f" there on: {change.said}")

    def ask_padding(self):
        padding = self.documents < 0
        if not padding.any():
            return Answer("padding", None, "the batch has no padding")
        _, change, _ = self._poison(padding, targets=~padding)
        if not change.ok:
            return Answer("padding", False, f"real positions change with the tokens at padding: {change.said}; padding is"
                                            " attended to")
        return Answer("padding", True, f"nothing real changes with the tokens at padding: {change.said}")

    def ask_documents(self):
        last = self.documents.max()
        if last <= 0:
            return Answer("documents", None, "the batch has no packed documents")
        for kept in sorted({0, int(last + 1) // 2, int(last)}):
            own = self.documents == kept
            _, change, _ = self._poison(~own & (self.documents >= 0), targets=own)
            if not change.ok:
                return Answer("documents", False, f"document {kept} changes with the tokens of the others: {change.said};"
                                                  " documents see each other")
        return Answer("documents", True, f"no document changes with the tokens of the others: {change.said}")

    def ask_micro_batches(self):
        """Rows are dealt out so that the parts have unlike numbers of targets: a mean of means must show."""
        counts = (self.targets != IGNORED).sum(axis=1)
        batch = self.batch
        if len(counts) < 2:
            return Answer("micro_batches", None, "the batch has one row")
        if len(set(counts.tolist())) == 1:
            targets = self.targets.copy()
            targets[0, : max(1, self.batch.shape[1] // 2)] = IGNORED
            batch = self.batch.replaced(shift_labels=targets)
        whole = self.runs.run(batch, disturbances=2)
        parts = [self.runs.run(batch.rows(rows)) for rows in ([0], list(range(1, len(counts))))]
        change = self.runs.sum_change(whole, parts)
        if not change.ok:
            return Answer("micro_batches", False, f"the gradients of two micro-batches do not add up to those of the batch:"
                                                  f" {change.said}; a divisor that is not the whole batch's, or rows that"
                                                  " see each other")
        return Answer("micro_batches", True, "the gradients of two micro-batches add up to those of the batch:"
                                             f" {change.said}")

    def ask_packing(self):
        if self.documents.max() <= 0:
            return Answer("packing", None, "the batch has no packed documents")
        packed = self.runs.run(self.batch, disturbances=2)
        apart, homes = _unpacked(self.batch, self.documents)
        change = self.runs.moved_change(packed, self.runs.run(apart), homes)
        if not change.ok:
            return Answer("packing", False, "packed documents give something else than each in a row of its own:"
                                            f" {change.said}")
        return Answer("packing", True, f"packed documents give what each gives in a row of its own: {change.said}")

    def _poison(self, where, targets):
        """Runs with the targets at these positions alone, once as it is and once with other tokens elsewhere: the first
        run, the change at positions that are not poisoned, and whether anything changed at those that are."""
        base = self.batch.replaced(shift_labels=np.where(targets, self.targets, IGNORED))
        first = self.runs.run(base)
        second = self.runs.run(base.replaced(**self._others(where)))
        change = self.runs.change(first, second, where=targets & (self.documents >= 0))
        return first, change, self.runs.moved(first, second, where)

    def _others(self, where):
        """Other tokens, of those that the batch has, at the places of a mask [B,T]."""
        ids = self.batch.batch.get("input_ids")
        if ids is None:
            embeds = self.batch.batch["inputs_embeds"].copy()
            embeds[where] = embeds.std() * self.random.standard_normal(embeds[where].shape)
            return {"inputs_embeds": embeds}
        known = np.unique(ids)
        if len(known) < 2:
            raise ValueError("probe: expected a batch with different tokens, found one token everywhere")
        step = self.random.integers(1, len(known), ids.shape)
        others = known[(np.searchsorted(known, ids) + step) % len(known)]
        return {"input_ids": np.where(where, others, ids)}


def _unpacked(batch, found):
    """Every document in a row of its own, padded on the right, and where each of its positions came from:
    int64 [documents,longest,2], row and position, -1 at padding."""
    pieces = [(row, np.flatnonzero(found[row] == document))
              for row in range(len(found)) for document in np.unique(found[row]) if document >= 0]
    longest = max(len(places) for _, places in pieces)
    homes = np.full((len(pieces), longest, 2), -1)
    for index, (row, places) in enumerate(pieces):
        homes[index, : len(places)] = np.stack([np.full(len(places), row), places], axis=1)
    real = homes[..., 0] >= 0
    row, place = np.maximum(homes, 0)[..., 0], np.maximum(homes, 0)[..., 1]
    positions = batch.batch.get("position_ids")
    if positions is None:
        positions = np.tile(np.arange(found.shape[1]), (len(found), 1))
    arrays = {name: value[row, place] for name, value in batch.batch.items()
              if name in ("input_ids", "inputs_embeds", "shift_labels")}
    arrays["shift_labels"] = np.where(real, arrays["shift_labels"], IGNORED)
    own = positions[row, place]
    arrays["position_ids"] = np.where(real, own, own[:, :1] + np.arange(longest))
    arrays.update(attention_mask=real.astype(np.uint8), document_ids=np.where(real, 0, -1),
                  num_items_in_batch=batch.batch["num_items_in_batch"])
    return BatchAlone(arrays, batch.config), homes
