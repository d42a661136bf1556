"""Fixtures for accelerators: made from a seed, and run by stock kernels."""

import contextlib
import io
import shutil
import unittest

import numpy as np

import cpeq
from tests.support import GOLDEN, FolderTest, needs_program, needs_torch

needs_torch("transformers")
needs_program()

import torch

import cpeq.transformers
from cpeq import program, tier


class Tier(FolderTest):
    def test_stock_kernels_compute_what_is_expected(self):
        """A mixture of experts has every kernel: sdpa, and grouped products."""
        path = tier.make(self.folder, "mixtral/packed250", control_runs=0)
        fixture = cpeq.Fixture(path)
        self.assertEqual((fixture.shape, fixture.config["head_dim"]), ((1, 250), 64))
        self.assertEqual(fixture.batch["document_ids"].max(), 3)
        model = cpeq.transformers.load(fixture, "sdpa", torch.float32, "grouped_mm")
        with cpeq.record(model, fixture=fixture, out=self.path("dump.h5")) as r:
            tier.run_step(r, model)
        cpeq.assert_same(fixture, self.path("dump.h5"))

    def test_batches(self):
        for name in tier.TIER:
            with self.subTest(name):
                case = tier.CASES[name.split("/")[1]]
                one, again, other = (tier._batch(seed, **case) for seed in ("0", "0", "1"))
                np.testing.assert_array_equal(one["input_ids"], again["input_ids"])
                self.assertFalse(np.array_equal(one["input_ids"], other["input_ids"]))
                real = one.get("attention_mask", np.ones(one["input_ids"].shape))
                self.assertEqual(real.sum(axis=1).tolist(), [sum(row) for row in case["lengths"]])
                targets = (one["labels"] != -100)[:, 1:]
                self.assertFalse((targets & (real[:, :-1] == 0)).any(), "padding predicts")
                self.assertEqual(real[-1, 0], 0 if case.get("pad") == "left" else 1)

    def test_limits_from_control_runs_are_kept_in_the_fixture(self):
        path = shutil.copy(GOLDEN / "llama" / "full5.h5", self.path("full5.h5"))
        tier.calibrate(path, torch.float32)
        self.assertRegex(program.run("info", path).stdout, "float32 from 8 control runs")

    def test_the_command_refuses_what_it_does_not_know(self):
        for arguments, words in ((["--only", "gpt2/*"], "expected one of llama/full256"),
                                 (["--control-runs", "3"], "expected 0 or at least 8")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as left:
                tier.main([self.folder, *arguments])
            self.assertEqual(left.exception.code, 2)
            self.assertIn(words, said.getvalue())


if __name__ == "__main__":
    unittest.main()
