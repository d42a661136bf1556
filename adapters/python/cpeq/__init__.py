"""Prove that a context-parallel training step equals the unsharded one.

Read a fixture, run your own step on this rank's part of its batch, record what came out,
and let `cpeq diff FIXTURE DUMP` judge:

    fixture = cpeq.Fixture("llama/full7.h5")
    with cpeq.record(model, fixture=fixture, out="dump", rank=rank, size=size,
                     exchange="ulysses", loss="share", gradients="partial") as r:
        batch = r.batch()
        ...

`Fixture`, `local_batch`, `layout` and `write_dump` need numpy and h5py only;
`record` and `Float64` need torch, `cpeq.transformers` needs transformers.
"""

from cpeq import layout
from cpeq.batch import LocalBatch, documents, local_batch, shift_labels
from cpeq.dump import BFloat16, write_dump
from cpeq.fixture import Fixture, FormatError

__version__ = "0.1.0"

__all__ = ["BFloat16", "Fixture", "Float64", "FormatError", "LocalBatch", "documents", "layout",
           "local_batch", "record", "shift_labels", "write_dump"]


def __getattr__(name):
    if name == "record":
        from cpeq.recorder import record
        return record
    if name == "Float64":
        from cpeq.float64 import Float64
        return Float64
    raise AttributeError(f"module 'cpeq' has no attribute '{name}'")
