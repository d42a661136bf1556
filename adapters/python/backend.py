"""setuptools' build backend, which asks for CMake and Ninja from PyPI where this machine has none."""

import shutil

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

TOOLS = {"cmake": "cmake>=3.22", "ninja": "ninja"}


def get_requires_for_build_wheel(config_settings=None):
    return [*build_meta.get_requires_for_build_wheel(config_settings),
            *(package for command, package in TOOLS.items() if shutil.which(command) is None)]
