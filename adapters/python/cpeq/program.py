"""The program cpeq: where it is, and how it is run.

It is looked for in $CPEQ, in this package (a wheel has it in cpeq/bin), and in PATH.
"""

import os
import subprocess
import sys

BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cpeq")
OWN_SCRIPT = b"cpeq.program"
BAD_USAGE = 3
PYTHON_COMMANDS = {"make-tier": "cpeq.tier"}


class ProgramError(RuntimeError):
    """The program is not there, or could not do what it was asked: one sentence."""


def find():
    """The path of the program; raises ProgramError if there is none."""
    named = os.environ.get("CPEQ")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ProgramError(f"$CPEQ: expected the program cpeq, found {named}, which cannot be run")
        return named
    candidates = [BUNDLED, *(os.path.join(folder, "cpeq") for folder in os.get_exec_path())]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK) and not _is_own_script(path):
            return path
    raise ProgramError("cpeq: expected the program in $CPEQ, in this package or in PATH, found it nowhere; a wheel has"
                       " it (pip install adapters/python), and so has build/comparator/bin after scripts/build comparator")


def run(*arguments, verdicts=(0,)):
    """Run `cpeq ARGUMENTS`; a subprocess.CompletedProcess with text. Raises ProgramError, with what it says, where it ends
    with another status than these."""
    done = subprocess.run([find(), *map(os.fspath, arguments)], capture_output=True, text=True)
    if done.returncode not in verdicts:
        raise ProgramError(done.stderr.strip() or f"cpeq {arguments[0]}: ended with status {done.returncode}")
    return done


def main():
    """The console script: becomes the program."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in PYTHON_COMMANDS:
        import importlib
        sys.exit(importlib.import_module(PYTHON_COMMANDS[arguments[0]]).main(arguments[1:]))
    try:
        program = find()
    except ProgramError as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_USAGE)
    os.execv(program, ["cpeq", *arguments])


def _is_own_script(path):
    """Whether this is the console script of this package, which would start itself."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!" and OWN_SCRIPT in file.read(2000)
