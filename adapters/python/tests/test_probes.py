"""Each probe finds the mistake that it is there for, and no mistake in a right step, in several dtypes."""

import unittest

import numpy as np

from tests.support import ids, needs_torch

needs_torch()

import torch
from torch import nn
from torch.nn import functional

import cpeq

VOCAB, SIZE, HEADS = 29, 16, 2
ROWS = {"input_ids": ids([5, 9, 2, 7, 11, 3, 8, 20, 4], [6, 1, 13, 4, 2, 9, 0, 0, 0]),
        "attention_mask": np.array([[1] * 9, [1] * 6 + [0] * 3], np.uint8)}
ROWS["labels"] = np.where(ROWS["attention_mask"] == 1, ROWS["input_ids"], -100)
PACKED = {"input_ids": ids([5, 9, 2, 7, 11, 3, 8, 20, 4, 6, 1, 13]), "labels": ids([5, 9, 2, 7, 11, 3, 8, 20, 4, 6, 1, 13]),
          "position_ids": ids([0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4])}


class Small(nn.Module):
    """One layer of attention; mistakes: which of its parts are wrong."""

    def __init__(self, mistakes=()):
        super().__init__()
        torch.manual_seed(1)
        self.mistakes = mistakes
        self.embed, self.place = nn.Embedding(VOCAB, SIZE), nn.Embedding(64, SIZE)
        self.qkv, self.out, self.head = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE), nn.Linear(SIZE, VOCAB)
        self.calls = 0

    def sees(self, documents):
        """[B,S,S]: 0, or minus infinity; a mistake lets others leak in."""
        length = documents.shape[1]
        sees = torch.ones(documents.shape[0], length, length, dtype=torch.bool)
        if "acausal" not in self.mistakes:
            sees &= torch.ones(length, length, dtype=torch.bool).tril(1 if "off by one" in self.mistakes else 0)
        same = documents[:, :, None] == documents[:, None]
        both = (documents >= 0)[:, :, None] & (documents >= 0)[:, None]
        if "padding" not in self.mistakes:
            sees &= both | ~(documents >= 0)[:, :, None]
        if "documents" not in self.mistakes:
            sees &= same | ~both
        return sees

    def forward(self, ids, positions, documents):
        self.calls += 1
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]) if "positions" in self.mistakes else positions)
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.sees(documents)[:, None])
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(functional.dropout(x, 0.5) if "dropout" in self.mistakes else x)


def step_of(model):
    def step(r):
        r.watch(model)
        b = r.batch()
        logits = model(b.input_ids, b.position_ids, b.document_ids)
        losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
        own = max(1, b.loss_count) if "divisor" in model.mistakes else b.num_items
        (losses.sum() / own).backward()
        r.logits(logits)
    return step


def stateful(model):
    """A step that is different every time, as with dropout that nobody seeds."""
    inner = step_of(model)

    def step(r):
        with torch.no_grad():
            model.head.bias += 0.1 * model.calls
        inner(r)
    return step


def answers(mistakes, batch, dtype=torch.float64, step=step_of, **options):
    model = Small(mistakes).to(dtype)
    found = cpeq.probe(step(model), batch=batch, dtype=dtype, **options)
    return {answer.probe: answer for answer in found}, found


class Probes(unittest.TestCase):
    def test_a_right_step_passes(self):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            with self.subTest(dtype):
                for batch, asked in ((ROWS, {"twice", "future", "padding", "micro_batches"}),
                                     (PACKED, {"twice", "future", "documents", "packing"})):
                    by_name, found = answers((), batch, dtype)
                    self.assertEqual({name for name, answer in by_name.items() if answer.ok}, asked, str(found))
                    self.assertIs(found.check(), found)

    def test_each_mistake_is_found_by_its_probe(self):
        for mistake, batch, probe, words in (
                ("acausal", ROWS, "future", "a query sees keys after it"),
                ("off by one", ROWS, "future", "row 0, position 1"),
                ("padding", {**ROWS, "attention_mask": ROWS["attention_mask"][:, ::-1].copy()}, "padding",
                 "padding is attended to"),
                ("documents", PACKED, "documents", "documents see each other"),
                ("positions", PACKED, "packing", "in a row of its own"),
                ("divisor", ROWS, "micro_batches", "a divisor that is not the whole batch's")):
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(mistake=mistake, dtype=dtype):
                    by_name, found = answers((mistake,), batch, dtype)
                    self.assertIs(by_name[probe].ok, False, str(found))
                    self.assertIn(words, by_name[probe].sentence)
                    with self.assertRaisesRegex(cpeq.Different, f"WRONG +{probe}"):
                        found.check()

    def test_a_mistake_is_not_blamed_on_others(self):
        by_name, found = answers(("divisor",), ROWS)
        self.assertEqual([name for name, answer in by_name.items() if answer.ok is False], ["micro_batches"], str(found))

    def test_a_step_that_is_not_the_same_twice(self):
        by_name, found = answers((), ROWS, step=stateful, probes=("twice",))
        self.assertIs(by_name["twice"].ok, False, str(found))

    def test_a_step_that_does_not_look_at_the_batch(self):
        fixed = torch.zeros(2, 9, dtype=torch.int64)

        def step(r):
            model = r.watch(Small().double())
            logits = model(fixed, fixed, fixed)
            logits.sum().backward()
            r.logits(logits)

        found = cpeq.probe(step, batch=ROWS, probes=("future", "padding"))
        self.assertIn("does not look at r.batch()", found[0].sentence)
        self.assertFalse(found.ok)

    def test_what_a_batch_cannot_be_asked(self):
        by_name, found = answers((), {"input_ids": PACKED["input_ids"], "labels": PACKED["labels"]})
        self.assertEqual({name for name, answer in by_name.items() if answer.ok is None},
                         {"padding", "documents", "micro_batches", "packing"})
        self.assertTrue(found.ok)
        self.assertFalse(answers((), PACKED, probes=("padding",))[1].ok)

    def test_unknown_probes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "found past"):
            answers((), ROWS, probes=("past",))


if __name__ == "__main__":
    unittest.main()
