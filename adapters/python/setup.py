"""Puts the comparator into the wheel: `cmake` builds it, without the engine, from the sources two folders above.

A source distribution carries these sources along, in the folder comparator. $CPEQ_BUILD names a build folder that is kept
and used again, as build/comparator; without it a temporary one is used.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import ExecError

HERE = pathlib.Path(__file__).resolve().parent
CARRIED = HERE / "comparator"
SOURCES = CARRIED if CARRIED.is_dir() else HERE.parents[1]
PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "base", "cmake", "docs", "harness", "library")
OPTIONS = ("-DCPEQ_ENGINE=OFF", "-DCPEQ_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release")
NEEDED = ("gcc cmake ninja-build pkg-config libhdf5-dev libjansson-dev libssl-dev libpopt-dev libxml2-dev zlib1g-dev")


def build_comparator(target):
    if not (SOURCES / "CMakeLists.txt").is_file():
        raise ExecError(f"cpeq: {SOURCES}: expected the sources of the comparator, of which this package is the folder"
                        " adapters/python; found no CMakeLists.txt")
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.environ.get("CPEQ_BUILD") or temporary
        if not pathlib.Path(folder, "CMakeCache.txt").exists():
            run("configured", "cmake", "-G", "Ninja", "-S", SOURCES, "-B", folder, *OPTIONS)
        run("built", "cmake", "--build", folder, "--target", "cpeq")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(pathlib.Path(folder, "bin", "cpeq"), target)


def run(what, *command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ExecError(f"cpeq: the comparator cannot be {what}: {error}; Debian has all it needs as {NEEDED}")
    if done.returncode != 0:
        raise ExecError(f"cpeq: the comparator cannot be {what}: {complaint(done.stdout + done.stderr)};"
                        f" Debian has all it needs as {NEEDED}")


def complaint(output):
    """What matters of the output of CMake or of a compiler, on one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    matters = ("Could NOT find", "was not found", "No package", "error:", "Could not find", "No CMAKE_")
    return next((line for word in matters for line in lines if word in line), lines[-1] if lines else "no output")


class BuildPackage(build_py):
    def run(self):
        shutil.rmtree(pathlib.Path(self.build_lib, "cpeq"), ignore_errors=True)  # what an older tree had is not packed
        super().run()
        if not self.editable_mode:  # an editable package finds the program in PATH, or by $CPEQ
            build_comparator(pathlib.Path(self.build_lib, "cpeq", "bin", "cpeq"))


class BuildWheel(bdist_wheel):
    """One wheel for every Python on this kind of machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BuildSources(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for part in PARTS:
            source, target = SOURCES / part, pathlib.Path(base_dir, "comparator", part)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


class WithProgram(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithProgram,
      cmdclass={"build_py": BuildPackage, "bdist_wheel": BuildWheel, "sdist": BuildSources})
