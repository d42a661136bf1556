"""Running every case of one world size in one set of processes.

A case may be refused, by all ranks at the same point. Where only some stop, the others wait for them in an
exchange until TIMEOUT, and the gate fails as a whole.
"""

import datetime
import json
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing

OUTCOME = "outcome.json"
TIMEOUT = datetime.timedelta(minutes=5)


def run(cases, size):
    """Run each case on size ranks: its dump is left in case.dump, or the reason in OUTCOME there.

    The module "steps" beside the script that is run has the recipes: RECIPES, by name a function (context, fixture,
    out); context(rank, size), what these are given; and read(path), the fixture.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (size, cases, os.path.join(folder, "store")), nprocs=size)


def _rank(rank, size, cases, store):
    import steps

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=TIMEOUT)
    context = steps.context(rank, size)
    for case in cases:
        reasons = [None] * size
        dist.all_gather_object(reasons, _attempt(steps, context, case))
        if rank == 0:
            _conclude(case, reasons)
        dist.barrier()
    dist.destroy_process_group()


def _attempt(steps, context, case):
    """None, or why this rank left no dump: what it ran is not the fixture's step, or something refused to run it."""
    import cpeq

    try:
        with cpeq.Float64(strict=True):
            steps.RECIPES[case.recipe](context, steps.read(case.fixture), case.dump)
    except Exception as error:
        verdict = "not comparable" if isinstance(error, cpeq.FormatError) else f"refused: {type(error).__name__}"
        return f"{verdict}: {' '.join(str(error).split())}"
    return None


def _conclude(case, reasons):
    """A step that some rank did not finish leaves no dump but the reason, of the lowest rank that has one."""
    reason = next((reason for reason in reasons if reason), None)
    if reason:
        shutil.rmtree(case.dump, ignore_errors=True)
    os.makedirs(case.dump, exist_ok=True)
    with open(os.path.join(case.dump, OUTCOME), "w") as file:
        json.dump(reason, file)
