"""assert_same, the search for the program, and pytest's view of a verdict. They need the program: $CPEQ or PATH."""

import os
import pathlib
import stat
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np

import cpeq
from cpeq import program
from tests.support import GOLDEN, FolderTest, needs_program

needs_program()

WITH_PACKAGE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONPATH": str(pathlib.Path(cpeq.__file__).parents[1])}
FIXTURE = GOLDEN / "llama" / "packed7.h5"


def whole(fixture, path, **changes):
    """A dump that is the truth itself, but for changes: name -> array."""
    expected = fixture.expected
    results = {name: expected[name] for name in ("loss", "token_loss", "logits")} | changes
    cpeq.write_dump(path, fixture_id=fixture.id, implementation="test", results=results, grads=expected["grads"])


class Judging(FolderTest):
    def setUp(self):
        super().setUp()
        self.fixture = cpeq.Fixture(FIXTURE)

    def test_the_same(self):
        whole(self.fixture, self.path("dump/whole.h5"))
        cpeq.assert_same(self.fixture, self.path("dump"))
        self.assertTrue(cpeq.judge(self.fixture, [self.path("dump/whole.h5")]).same)

    def test_a_difference_is_told_in_the_programs_words(self):
        whole(self.fixture, self.path("dump.h5"), loss=self.fixture.expected["loss"] / 2)
        with self.assertRaisesRegex(cpeq.Different, r"(?s)^DIFFERENT .*loss.*\nnext: ") as caught:
            cpeq.assert_same(self.fixture, self.path("dump.h5"))
        self.assertLessEqual(len(str(caught.exception).splitlines()), 25)
        cpeq.assert_same(self.fixture, self.path("dump.h5"), only="grads/*")
        cpeq.assert_same(self.fixture, self.path("dump.h5"), rtol=1, atol=0)

    def test_what_cannot_be_compared_is_no_pass(self):
        whole(self.fixture, self.path("dump.h5"), logits=np.zeros((1, 2, 3)))
        with self.assertRaisesRegex(cpeq.NotComparable, "NOT COMPARABLE"):
            cpeq.assert_same(self.fixture, self.path("dump.h5"))

    def test_a_file_that_is_not_there(self):
        with self.assertRaisesRegex(cpeq.ProgramError, "absent.h5"):
            cpeq.assert_same(self.fixture, self.path("absent.h5"))

    def test_another_dump_as_the_truth(self):
        for name in ("one.h5", "two.h5"):
            whole(self.fixture, self.path(name))
        cpeq.assert_same(self.path("one.h5"), self.path("two.h5"), fixture=self.fixture)


class Finding(FolderTest):
    def executable(self, name, text):
        path = pathlib.Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def found(self, **environment):
        with mock.patch.dict(os.environ, environment), mock.patch.object(program, "BUNDLED", self.path("bundled/cpeq")):
            return program.find()

    def test_first_what_is_named_then_the_packages_own_then_path(self):
        in_path = self.executable("path/cpeq", "#!/bin/sh\n")
        empty = {"CPEQ": "", "PATH": os.path.dirname(in_path)}
        self.assertEqual(self.found(**empty), in_path)
        bundled = self.executable("bundled/cpeq", "#!/bin/sh\n")
        self.assertEqual(self.found(**empty), bundled)
        named = self.executable("named/cpeq", "#!/bin/sh\n")
        self.assertEqual(self.found(**{**empty, "CPEQ": named}), named)

    def test_a_named_one_that_cannot_be_run(self):
        with self.assertRaisesRegex(cpeq.ProgramError, r"\$CPEQ.*absent"):
            self.found(CPEQ=self.path("absent"))

    def test_nowhere(self):
        with self.assertRaisesRegex(cpeq.ProgramError, "found it nowhere"):
            self.found(CPEQ="", PATH=self.folder)

    def test_the_console_script_does_not_start_itself(self):
        own = self.executable("path/cpeq", "#!/usr/bin/python3\nfrom cpeq.program import main\nmain()\n")
        with self.assertRaisesRegex(cpeq.ProgramError, "found it nowhere"):
            self.found(CPEQ="", PATH=os.path.dirname(own))

    def test_python_m_is_the_program(self):
        done = subprocess.run([sys.executable, "-m", "cpeq", "info", FIXTURE], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("llama", done.stdout)
        missing = subprocess.run([sys.executable, "-m", "cpeq", "info"], capture_output=True, text=True,
                                 env={**os.environ, "CPEQ": self.path("absent")})
        self.assertEqual((missing.returncode, "Traceback" in missing.stderr), (3, False))


PYTEST_FILE = """
import cpeq
def test_step():
    cpeq.assert_same({fixture!r}, {dump!r})
"""


class Pytest(FolderTest):
    def test_a_failure_is_the_verdict_without_a_traceback(self):
        fixture = cpeq.Fixture(FIXTURE)
        whole(fixture, self.path("dump.h5"), loss=1.0)
        pathlib.Path(self.path("test_step.py")).write_text(
            PYTEST_FILE.format(fixture=str(FIXTURE), dump=self.path("dump.h5")))
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "cpeq.pytest_plugin", "-p", "no:cacheprovider",
                               self.folder], capture_output=True, text=True, cwd=self.folder, env=WITH_PACKAGE)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        said = done.stdout.partition("test_step ___")[2].partition("short test summary")[0]
        self.assertRegex(said, r"\nDIFFERENT .*\n")
        self.assertNotIn("assert_same", said)
        self.assertNotIn("Error", said)


if __name__ == "__main__":
    unittest.main()
