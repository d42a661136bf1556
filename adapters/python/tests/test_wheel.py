"""The wheel has the comparator in it. Needs what building cpeq needs; $CPEQ_BUILD saves the compiler's time."""

import os
import pathlib
import subprocess
import sys
import unittest
import zipfile

from tests.support import GOLDEN, FolderTest, needs_program, needs_torch

needs_torch("setuptools")  # where it is, the gates run, in whose environment setuptools is new enough
needs_program()

PACKAGE = pathlib.Path(__file__).parents[1]


class Wheel(FolderTest):
    def build(self, **environment):
        return subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w",
                               self.folder, PACKAGE], capture_output=True, text=True, env={**os.environ, **environment})

    def test_its_program_runs(self):
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        wheel, = pathlib.Path(self.folder).glob("*.whl")
        self.assertRegex(wheel.name, r"^cpeq-[0-9.]+-py3-none-linux_")
        with zipfile.ZipFile(wheel) as archive:
            program = archive.extract("cpeq/bin/cpeq", self.folder)
            self.assertTrue(archive.getinfo("cpeq/bin/cpeq").external_attr >> 16 & 0o100, "it is not executable")
            scripts = archive.read(next(name for name in archive.namelist() if name.endswith("entry_points.txt"))).decode()
        os.chmod(program, 0o755)
        said = subprocess.run([program, "info", GOLDEN / "llama" / "full5.h5"], capture_output=True, text=True)
        self.assertIn("llama", said.stdout)
        self.assertNotEqual(subprocess.run([program, "make"], capture_output=True).returncode, 0, "it has the engine")
        self.assertIn("cpeq.program:main", scripts)
        self.assertIn("cpeq.pytest_plugin", scripts)

    def test_without_what_it_needs_it_says_so_in_a_sentence(self):
        done = self.build(CPEQ_BUILD="", PATH=self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "error: cpeq: the comparator cannot be configured: .*libhdf5-dev")


if __name__ == "__main__":
    unittest.main()
