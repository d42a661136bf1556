import hashlib
import os
import unittest

import h5py
import numpy as np

from cpeq import BFloat16, write_dump
from cpeq.dump import digest, rank_path
from tests.support import FolderTest

MINE = {"fixture_id": "f" * 64, "implementation": "test"}


class Writing(FolderTest):
    def test_places_and_attributes(self):
        path = self.path("deep/whole.h5")
        write_dump(path, **MINE, results={"loss": 2.5, "logits": np.ones((1, 2, 3))}, grads={"a.b": np.arange(3.0)},
                   trace={"layer.0.out": np.zeros(1)}, ran={"weights/a.b": "00"}, compute_dtype="float64",
                   exchange=None, grad_absent=["c.d"])
        with h5py.File(path) as file:
            self.assertEqual((file.attrs["format"], file.attrs["kind"], file.attrs["format_version"]),
                             ("cpeq", "dump", 1))
            self.assertEqual(list(file.attrs["grad_absent"]), ["c.d"])
            self.assertNotIn("exchange", file.attrs)
            self.assertEqual(file["loss"][()], 2.5)
            self.assertEqual(file["grads"]["a.b"][2], 2.0)
            self.assertEqual(file["ran/weights/a.b"].asstr()[()], "00")

    def test_bfloat16(self):
        path = self.path("whole.h5")
        write_dump(path, **MINE, results={"logits": BFloat16(np.array([0x3F80], np.uint16))})
        with h5py.File(path) as file:
            self.assertEqual(file["logits"].attrs["dtype"], "bfloat16")

    def test_a_scalar_stays_one(self):
        write_dump(self.path("whole.h5"), **MINE, results={"loss": BFloat16(np.array(0x3F80, np.uint16))})
        with h5py.File(self.path("whole.h5")) as file:
            self.assertEqual(file["loss"].shape, ())

    def test_a_failed_write_leaves_the_old_file_and_no_other(self):
        path = self.path("whole.h5")
        write_dump(path, **MINE, results={"loss": 1.0})
        with self.assertRaises(TypeError):
            write_dump(path, **MINE, results={"loss": 2.0, "logits": object()})
        self.assertEqual(os.listdir(self.folder), ["whole.h5"])
        with h5py.File(path) as file:
            self.assertEqual(file["loss"][()], 1.0)

    def test_a_rank_must_say_what_its_numbers_mean(self):
        with self.assertRaisesRegex(ValueError, "found no token_index, gradients$"):
            write_dump(self.path("x.h5"), **MINE, results={"loss": 1.0}, cp_rank=0, loss_kind="share",
                       compute_dtype="float64")

    def test_unknown_kinds_are_refused(self):
        with self.assertRaisesRegex(ValueError, 'gradients: expected one of .*, found "summed"'):
            write_dump(self.path("x.h5"), **MINE, gradients="summed")

    def test_all_kinds_of_loss_are_known(self):
        for kind in ("global", "share", "mean", "partial_sum", "local_mean"):
            write_dump(self.path("x.h5"), **MINE, loss_kind=kind)
            with h5py.File(self.path("x.h5")) as file:
                self.assertEqual(file.attrs["loss_kind"], kind)

    def test_rank_files_sort_by_rank(self):
        self.assertTrue(rank_path("d", 3).endswith("rank-0003.h5"))

    def test_digests_do_not_depend_on_storage(self):
        expected = hashlib.sha256(np.array([1.0, 2.0], "<f8").tobytes()).hexdigest()
        self.assertEqual(digest(np.array([1.0, 2.0], np.float32)), expected)
        self.assertEqual(digest(np.array([1.0, 2.0], ">f8")), expected)
        self.assertEqual(digest(np.array([1, 2], np.int32)), digest(np.array([1, 2], np.int64)))


if __name__ == "__main__":
    unittest.main()
