"""record and assert_same on two ranks over gloo: one spawn for all that needs ranks."""

import json
import os
import pathlib
import tempfile
import unittest

import h5py

import cpeq
from tests.support import GOLDEN, needs_program, needs_torch

needs_torch()
needs_program()

import torch.multiprocessing

from tests import ranks

FIXTURE = GOLDEN / "llama" / "full7.h5"


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = temporary.name
        torch.multiprocessing.spawn(ranks.main, (cls.folder, str(FIXTURE)), nprocs=ranks.SIZE)
        cls.said = [json.loads(pathlib.Path(cls.folder, f"said-{rank}.json").read_text()) for rank in range(ranks.SIZE)]

    def dump(self, case, rank=1):
        return h5py.File(os.path.join(self.folder, case, f"rank-{rank:04d}.h5"))

    def test_every_way_is_the_same_step(self):
        for case in ranks.CASES:
            with self.subTest(case.__name__):
                cpeq.assert_same(FIXTURE, os.path.join(self.folder, case.__name__))

    def test_traces_are_those_of_the_fixture(self):
        with self.dump("plain") as file, h5py.File(FIXTURE) as fixture:
            self.assertEqual(set(file["trace"]), set(fixture["expected/trace"]))
        said = cpeq.judge(FIXTURE, os.path.join(self.folder, "plain"), only="trace/*", rtol=0, atol=0).text
        self.assertIn("trace/grad.embed", said)  # judged, and not passed over

    def test_a_sharded_gradient_is_written_in_slices(self):
        with self.dump("fsdp") as file:
            gradient = file["grads/lm_head.weight"]
            self.assertEqual((gradient.shape, list(gradient.attrs["global_shape"]), list(gradient.attrs["offset"])),
                             ((18, 16), [37, 16], [19, 0]))
            self.assertNotIn("replicated", gradient.attrs)
        with self.dump("hsdp") as file:
            self.assertEqual(file["grads/lm_head.weight"].attrs["replicated"], 1)

    def test_what_ran_is_told(self):
        for case in ranks.CASES:
            with self.subTest(case.__name__), self.dump(case.__name__) as file:
                self.assertEqual(set(file["ran"]), {"input_ids", "position_ids", "weights"})
                self.assertEqual(len(file["ran/weights"]), 21)

    def test_refusals_say_what_would_help(self):
        for said in self.said:
            self.assertRegex(said["mesh"], r'ValueError: group: .* mesh\["cp"\], found one of 2')
            self.assertRegex(said["partial slices"], 'ValueError: gradients: expected "reduced".*lm_head.weight is a DTensor')
            self.assertRegex(said["hooks of slices"], "before_reduction cannot see it")

    def test_all_ranks_are_told_the_same(self):
        self.assertEqual(*self.said)
        said = self.said[0]
        self.assertEqual(said["same"], "nothing")
        self.assertRegex(said["different"], r"^Different: DIFFERENT")
        self.assertRegex(said["absent"], r"^ProgramError: .*absent")

    def test_a_model_of_ones_own_against_its_unsharded_run(self):
        said = self.said[0]
        self.assertEqual(said["own bfloat16"], "nothing")
        self.assertRegex(said["own wrong"], r"(?s)^Different: DIFFERENT .*8 control runs")
        self.assertRegex(said["other weights"], r"(?s)^Different: .* 1 of 30 weights .*\nnext: .* norm.weight")

    def test_probes_over_ranks(self):
        said = self.said[0]
        self.assertNotIn("WRONG", said["probes"])
        self.assertEqual(said["probes"].count("ok  "), 5, said["probes"])
        self.assertEqual(said["probes of wrong"].count("WRONG"), 2, said["probes of wrong"])


if __name__ == "__main__":
    unittest.main()
