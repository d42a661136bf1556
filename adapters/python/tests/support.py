"""Fixtures small enough to check by hand, and where the golden ones are."""

import hashlib
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

import h5py
import numpy as np

from cpeq import program

GOLDEN = pathlib.Path(os.environ.get("CPEQ_FIXTURES", pathlib.Path(__file__).parents[3] / "fixtures" / "golden"))
CONFIG = '{"model_type": "none", "pad_token_id": 3}'
WEIGHT = {"w": np.array([1.0, 2.0], np.float32)}


def needs_program():
    """Skips a file of tests, with a loud line, where cpeq is not found; the gates demand it."""
    try:
        program.find()
    except program.ProgramError as error:
        _not_tested(str(error))


def needs_torch(*modules):
    """The same where torch, or another of these, is not installed."""
    missing = [name for name in ("torch", *modules) if importlib.util.find_spec(name) is None]
    if missing:
        _not_tested(f"this needs {' and '.join(missing)}")


def _not_tested(reason):
    if os.environ.get("CPEQ_REQUIRE_TORCH"):
        raise RuntimeError(reason)
    print(f"NOT TESTED: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, batch, name="fixture.h5", **changes):
        path = self.path(name)
        write_fixture(path, batch, **changes)
        return path


def ids(*rows):
    return np.array(rows, dtype=np.int64)


def write_fixture(path, batch, weights=WEIGHT, config=CONFIG, header=(), fixture_id=None):
    with h5py.File(path, "w") as file:
        file["config"] = config
        for group, arrays in (("weights", weights), ("batch", batch)):
            for name, array in arrays.items():
                file[f"{group}/{name}"] = array
        file.attrs.update({"format": "cpeq", "format_version": 1, "kind": "fixture", "producer": "test",
                           "fixture_id": fixture_id or fixture_hash(config, weights, batch), **dict(header)})


def fixture_hash(config, weights, batch):
    """The rule for fixture_id, written out once more."""
    parts = [b"config\0", config.encode()]
    for group, arrays in (("weights", weights), ("batch", batch)):
        for name, array in sorted(arrays.items()):
            array = np.asarray(array)
            shape = ",".join(map(str, array.shape)) or "1"
            head = "\0".join(["", f"{group}/{name}", array.dtype.str, shape, ""])
            parts += [head.encode(), array.tobytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()
