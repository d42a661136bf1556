"""What `cpeq diff` says of a dump, as a failure of a test.

Under torchrun all ranks call assert_same: it waits until all have come, the first rank judges, and all of them raise the
same, or return.
"""

import sys
from dataclasses import dataclass

from cpeq import program

SAME, DIFFERENT, NOT_COMPARABLE = range(3)


class Different(AssertionError):
    """The verdict is "different"; the message is the verdict's lines, at most 25."""


class NotComparable(Different):
    """The verdict is "not comparable": something is missing, empty or of another shape."""


@dataclass(frozen=True)
class Verdict:
    """status: 0 same, 1 different, 2 not comparable; text: what the program says, at most 25 lines."""

    status: int
    text: str

    @property
    def same(self):
        return self.status == SAME

    def check(self):
        """Raises Different or NotComparable unless it is "same"; returns itself."""
        __tracebackhide__ = True
        if not self.same:
            raise (NotComparable if self.status == NOT_COMPARABLE else Different)(self.text)
        return self


def judge(expected, dump, *, fixture=None, only=None, limits=None, rtol=None, atol=None):
    """The Verdict of `cpeq diff`. Raises ProgramError where the program is missing or a file cannot be read.

    expected    a Fixture, or the path of a fixture or of another dump
    dump        the path of a dump: a file, or a folder with the files of all ranks; or a list of files
    fixture     with two dumps: the Fixture, or its path, whose batch both were made from
    only        judge only tensors of that name, as "grads/*"
    limits      a file of limits, as `cpeq calibrate --from` makes it
    rtol, atol  limits of your own, element by element
    """
    options = {"--fixture": _path(fixture), "--only": only, "--limits": limits, "--rtol": rtol, "--atol": atol}
    given = [str(part) for option, value in options.items() if value is not None for part in (option, value)]
    dumps = dump if isinstance(dump, (list, tuple)) else [dump]
    done = program.run("diff", "--color", "never", *given, _path(expected), *dumps,
                       verdicts=(SAME, DIFFERENT, NOT_COMPARABLE))
    return Verdict(done.returncode, (done.stdout.strip() or done.stderr.strip()))


def assert_same(expected, dump, *, group=None, **options):
    """Raises Different, an AssertionError whose message is the verdict, unless dump is the same as expected.

    Takes what judge takes. group: ranks that call this together, a process group or a DeviceMesh of one dimension; all
    of them where torch.distributed runs.
    """
    __tracebackhide__ = True
    return on_first_rank(lambda: judge(expected, dump, **options), group).check()


def on_first_rank(function, group=None):
    """What function gives on the first rank, on all ranks; it is called when all have come here. What it raises, all
    ranks raise. Without torch.distributed simply what it gives."""
    distributed = _distributed()
    if distributed is None:
        return function()
    if hasattr(group, "mesh_dim_names"):
        group = group.get_group()
    outcome = [None]
    distributed.barrier(group=group)
    first = distributed.get_global_rank(group, 0) if group is not None else 0
    if distributed.get_rank() == first:
        try:
            outcome = [(function(), None)]
        except Exception as error:  # every rank shall raise it, not wait for this one
            outcome = [(None, error)]
    distributed.broadcast_object_list(outcome, src=first, group=group)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _distributed():
    """torch.distributed where a job of several ranks has loaded it, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _path(item):
    return getattr(item, "path", item)
