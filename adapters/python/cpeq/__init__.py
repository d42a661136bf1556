"""Prove that a context-parallel training step equals the unsharded one.

Read a fixture, run your own step on this rank's part of its batch, record what came out, and have it judged:

    fixture = cpeq.Fixture("llama/full7.h5")
    with cpeq.record(model, fixture=fixture, out="dump", group=cp_group,
                     exchange="ulysses", loss="share", gradients="partial") as r:
        batch = r.batch()
        ...
    cpeq.assert_same(fixture, "dump")

numpy and h5py are all that most of it needs; `record` and `Float64` need torch, `cpeq.transformers` needs transformers,
`cpeq.jax` needs jax. Each name is imported when it is first used.
"""

import importlib

__version__ = "0.1.0"

_MODULES = ("attention", "batch", "dump", "fixture", "float64", "layout", "program")
_PLACES = {
    "BFloat16": "dump", "write_attention": "dump", "write_dump": "dump",
    "AttentionFixture": "attention",
    "Different": "verdict", "NotComparable": "verdict", "Verdict": "verdict", "assert_same": "verdict", "judge": "verdict",
    "Fixture": "fixture", "FormatError": "fixture", "write_fixture": "fixture",
    "Float64": "float64",
    "LocalBatch": "batch", "documents": "batch", "local_batch": "batch", "shift_labels": "batch",
    "ProgramError": "program",
    "assert_cp_equal": "equal",
    "probe": "probes",
    "record": "recorder",
}

__all__ = sorted([*_PLACES, "layout"])


def __getattr__(name):
    if name in _PLACES:
        value = getattr(importlib.import_module(f"cpeq.{_PLACES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"cpeq.{name}")
    else:
        raise AttributeError(f"module 'cpeq' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__, *_MODULES]
