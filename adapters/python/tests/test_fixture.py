import unittest

import h5py
import numpy as np

from cpeq import BFloat16, Fixture, FormatError, write_fixture
from tests.support import GOLDEN, FolderTest, ids

BATCH = {"input_ids": ids([5, 6, 7]), "labels": ids([5, 6, 7])}


class Reading(FolderTest):
    def test_holds_what_was_written(self):
        fixture = Fixture(self.write(BATCH))
        self.assertEqual(fixture.config["pad_token_id"], 3)
        self.assertEqual(fixture.shape, (1, 3))
        np.testing.assert_array_equal(fixture.weights["w"], [1.0, 2.0])
        np.testing.assert_array_equal(fixture.batch["input_ids"], [[5, 6, 7]])

    def test_id_is_the_hash_of_the_bytes_that_the_format_names(self):
        """The constant is what sha256sum says about those bytes."""
        path = self.write({"input_ids": ids([1])}, config="{}", weights={"w": np.array([1.0], "<f4")})
        self.assertEqual(Fixture(path).id, "a2856126c30be432a5c07e79cf3be8a3b1d59ec03926b478d8bc9185403f9a51")

    def test_bfloat16_words_are_widened(self):
        path = self.write(BATCH, weights={"w": np.array([0x3F80, 0xC000], "<u2")})
        with h5py.File(path, "r+") as file:
            file["weights/w"].attrs["dtype"] = "bfloat16"
        np.testing.assert_array_equal(Fixture(path).weights["w"], [1.0, -2.0])

    def test_big_endian_storage_gives_the_same_id(self):
        little = self.write(BATCH)
        big = self.write({name: array.astype(">i8") for name, array in BATCH.items()}, "big.h5",
                         fixture_id=Fixture(little).id)
        self.assertEqual(Fixture(big).id, Fixture(little).id)

    def test_roles_and_ties(self):
        path = self.write(BATCH)
        with h5py.File(path, "r+") as file:
            file["weights/w"].attrs["role"] = "buffer"
            file["weights/w"].attrs["tied"] = np.array(["v"], dtype=h5py.string_dtype())
        fixture = Fixture(path)
        self.assertEqual((fixture.roles, fixture.tied, fixture.trainable()), ({"w": "buffer"}, {"w": ["v"]}, []))

    def test_every_golden_fixture_has_the_id_it_claims(self):
        paths = sorted(GOLDEN.glob("llama*/*.h5"))
        if not paths:
            self.skipTest(f"no golden fixtures in {GOLDEN}")
        for path in paths:
            with self.subTest(path=path.name):
                self.assertTrue(Fixture(path).expected["grads"])


class Writing(FolderTest):
    def test_what_is_written_is_read(self):
        path = self.path("mine.h5")
        words = np.array([0x3F80, 0xC000], "<u2")
        written = write_fixture(path, batch=BATCH, config={"model_type": "none"},
                                weights={"v": BFloat16(words), "w": np.ones((2, 3))}, tied={"w": ["u"]},
                                roles={"v": "buffer"}, expected={"loss": np.float64(2.5), "grads/w": np.ones((2, 3))},
                                attributes={"source": "test", "order": ["w"]})
        fixture = Fixture(path)
        self.assertEqual((fixture.id, fixture.tied, fixture.roles), (written, {"w": ["u"]}, {"v": "buffer"}))
        np.testing.assert_array_equal(fixture.weights["v"], [1.0, -2.0])
        self.assertEqual(fixture.expected["grads"]["w"].shape, (2, 3))

    def test_a_batch_alone(self):
        self.assertEqual(Fixture(self.path("b.h5")).config if write_fixture(self.path("b.h5"), batch=BATCH) else None, {})


class Refusing(FolderTest):
    def assertRefused(self, path, *words):
        with self.assertRaises(FormatError) as caught:
            Fixture(path)
        for word in (path, *words):
            self.assertIn(word, str(caught.exception))

    def test_not_hdf5(self):
        path = self.path("text.h5")
        with open(path, "w") as file:
            file.write("no")
        self.assertRefused(path, "HDF5")

    def test_a_missing_file(self):
        self.assertRefused(self.path("absent.h5"))

    def test_another_kind(self):
        self.assertRefused(self.write(BATCH, header={"kind": "dump"}.items()), "kind", "fixture", "dump")

    def test_another_format(self):
        self.assertRefused(self.write(BATCH, header={"format": "other"}.items()), "format", "other")

    def test_a_later_version(self):
        self.assertRefused(self.write(BATCH, header={"format_version": 2}.items()), "format_version", "1", "2")

    def test_a_changed_weight(self):
        path = self.write(BATCH)
        with h5py.File(path, "r+") as file:
            file["weights/w"][0] = 1.5
        self.assertRefused(path, "fixture_id")

    def test_a_batch_without_tokens(self):
        self.assertRefused(self.write({"labels": ids([1, 2])}), "/batch", "input_ids")

    def test_labels_of_another_shape(self):
        self.assertRefused(self.write({"input_ids": ids([1, 2]), "labels": ids([1])}), "/batch/labels", "[1, 2]",
                           "[1, 1]")

    def test_config_that_is_no_json(self):
        self.assertRefused(self.write(BATCH, config="{"), "/config", "JSON")


if __name__ == "__main__":
    unittest.main()
