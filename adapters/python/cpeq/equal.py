"""assert_cp_equal: a sharded step of somebody's own model and batch against the unsharded one.

The unsharded step runs in a process of its own: some frameworks replace functions for the whole process, and then the
reference would be wrong together with what it is to judge.
"""

import multiprocessing
import os
import pathlib
import shutil
import tempfile
import traceback
from contextlib import contextmanager, nullcontext

import h5py
import torch

from cpeq import program
from cpeq.fixture import write_fixture
from cpeq.float64 import Float64
from cpeq.recorder import record
from cpeq.storage import text
from cpeq.tensors import dtype_name
from cpeq.verdict import Different, judge, on_first_rank

LEAST_RUNS = 8
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "MASTER_ADDR",
            "MASTER_PORT")
BATCH, TRUTH, LIMITS, FAILURE = "batch.h5", "truth.h5", "limits.h5", "failure.txt"


def assert_cp_equal(step, reference_step, *, batch, dtype=torch.float64, group=None, runs=LEAST_RUNS,
                    truth_dtype=torch.float64, out=None, layout="contiguous", only=None, config=None, loss="share",
                    gradients="partial", **declared):
    """Assert that a context-parallel step computes what the unsharded one does, on a model and a batch of your own.

        def build(r):                                    # in a module that can be imported
            torch.manual_seed(0)
            return MyModel().to(r.dtype)

        def reference_step(r):                           # unsharded, in a process of its own
            model, b = r.watch(build(r)), r.batch()
            logits = model(b.input_ids, b.position_ids)
            losses = cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
            loss = losses.sum() / b.num_items
            loss.backward()
            r.loss(loss), r.token_loss(losses), r.logits(logits)

        def step(r):                                     # on every rank
            model, b = r.watch(parallelize(build(r))), r.batch()
            ...                                          # as above, the way you do

        def test_step():                                 # under torchrun; all ranks call it, and all raise alike
            cpeq.assert_cp_equal(step, reference_step, batch={"input_ids": ids, "labels": ids}, dtype=torch.bfloat16,
                                 layout="zigzag")

    step, reference_step    get a Recorder `r`, and hand it their model (`r.watch`) before its forward, and what came
                  out: `r.loss`, and `r.token_loss` or `r.logits` or both. `r.batch()` is this rank's part of the batch, or
                  the whole; cut `r.fixture.batch`, the whole arrays, with your own code to have that judged too. `r.dtype`
                  is what the model shall run in, `r.truth` whether this run is the truth. Both must start from the same
                  weights. reference_step is importable, as functions of a module are; or it is the folder
                  `out/reference` of an earlier call, which then is used again
    batch         name -> array: input_ids, labels or shift_labels, perhaps attention_mask, position_ids, document_ids
    dtype         what the step computes in. In float64 both run under cpeq.Float64, and limits are those of rounding.
                  Else limits are measured: reference_step runs `runs` times in dtype with disturbed rounding, and once
                  in truth_dtype, with the same weights. No limit is chosen by anybody
    group         the context-parallel group; all ranks where there is none
    out           a folder, seen by all ranks, that keeps all dumps; without it they are removed
    only          judge only tensors of that name, as "grads/*"
    layout, loss, gradients, declared    of step, as in cpeq.record

    Raises Different, an AssertionError whose message is the verdict.
    """
    __tracebackhide__ = True
    folder = on_first_rank(lambda: _prepare(out, batch, config), group)
    if group is None and torch.distributed.is_available() and torch.distributed.is_initialized():
        group = torch.distributed.group.WORLD
    name = dtype_name(dtype)
    recorded = record(fixture=folder / BATCH, out=folder / "ranks", group=group, layout=layout, loss=loss,
                      gradients=gradients, compute_dtype=name, **declared)
    with _promoted(dtype), recorded.set(dtype=dtype) as r:
        step(r)

    def judged():
        measured = dtype is not torch.float64
        reference = _reference(reference_step, folder, dtype, truth_dtype, runs if measured else 0)
        verdict = judge(reference / TRUTH, folder / "ranks", fixture=folder / BATCH, only=only,
                        limits=reference / LIMITS if measured else None)
        return verdict, _other_weights(reference / TRUTH, folder / "ranks")

    try:
        verdict, other = on_first_rank(judged, group)
    finally:
        if out is None:
            on_first_rank(lambda: shutil.rmtree(folder, ignore_errors=True), group)
    if other:
        raise Different(other)
    verdict.check()


def _prepare(out, batch, config):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cpeq-") if out is None else out)
    shutil.rmtree(folder / "ranks", ignore_errors=True)  # of an earlier call, with more ranks perhaps
    write_fixture(folder / BATCH, config=config or "",
                  batch={name: value.cpu().numpy() if isinstance(value, torch.Tensor) else value
                         for name, value in batch.items()})
    return folder


def _reference(step, folder, dtype, truth_dtype, runs):
    """The folder with the truth, and limits unless runs is 0."""
    if not callable(step):
        return pathlib.Path(step)
    reference = folder / "reference"
    shutil.rmtree(reference, ignore_errors=True)
    reference.mkdir()
    with _alone():
        process = multiprocessing.get_context("spawn").Process(
            target=_run_reference, args=(step, folder, dtype, truth_dtype, runs))
        process.start()
    process.join()
    failure = reference / FAILURE
    if failure.exists():
        raise RuntimeError(f"reference_step failed:\n{failure.read_text()}")
    if process.exitcode != 0:
        raise RuntimeError(f"reference_step: its process ended with status {process.exitcode}; it must be a function of"
                           " a module that can be imported")
    if runs:
        program.run("calibrate", "--from", reference / TRUTH, *sorted(reference.glob("run-*.h5")), "--fixture",
                    folder / BATCH, "-o", reference / LIMITS)
    return reference


@contextmanager
def _alone():
    """What is started inside knows of no other ranks."""
    names = [name for name in os.environ if name in LAUNCHER or name.startswith("TORCHELASTIC_")]
    kept = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(kept)


def _run_reference(step, folder, dtype, truth_dtype, runs):
    """The control runs, the first as it is and the others disturbed, and the truth, which starts from their weights."""
    weights = {}
    try:
        for run in range(runs):
            take = None if run else lambda model: weights.update(_parameters(model))
            _run_unsharded(step, folder, f"run-{run:03d}.h5", dtype, disturbance=run or None, on_watch=take)
        give = (lambda model: _give(model, weights)) if runs else None
        _run_unsharded(step, folder, TRUTH, truth_dtype, truth=True, on_watch=give)
    except Exception:
        (folder / "reference" / FAILURE).write_text(traceback.format_exc(limit=-5))


def _run_unsharded(step, folder, name, dtype, **settings):
    recorded = record(fixture=folder / BATCH, out=folder / "reference" / name, compute_dtype=dtype_name(dtype))
    with _promoted(dtype), recorded.set(dtype=dtype, **settings) as r:
        step(r)


def _promoted(dtype):
    """What is to be float64 is float64 everywhere."""
    return Float64() if dtype is torch.float64 else nullcontext()


def _parameters(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _give(model, weights):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def _other_weights(truth, ranks):
    """What to say where the two did not start from the same weights, else ""."""
    with h5py.File(truth) as expected, h5py.File(sorted(ranks.glob("*.h5"))[0]) as actual:
        expected, actual = (file.get("unread/weights", {}) for file in (expected, actual))
        both = [name for name in expected if name in actual]
        other = [name for name in both if text(expected[name][()]) != text(actual[name][()])]
    if not other:
        return ""
    return (f"DIFFERENT  {len(other)} of {len(both)} weights of step are not those of reference_step\n"
            f"next: start both from the same numbers, the same seed say; the first that differs is {other[0]}")
