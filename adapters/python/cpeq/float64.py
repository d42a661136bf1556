"""Float64: run torch code in double although it asks for float32 inside.

Model code asks for float32 in norms, softmax, rope and the loss, so a model that was merely
converted to double is accurate to about 1e-7 only. Inside `with Float64():` every request for a
narrower float is answered with float64, and whatever still came out narrower is noted. Build the
model inside it too: inverse frequencies and the like are computed then.

Requests are answered twice: where Python calls a function of torch, and where torch dispatches an
operation, because the backward of a custom autograd.Function is only seen there.
"""

import collections

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

NARROW = (torch.float32, torch.float16, torch.bfloat16)
NARROWING = {torch.Tensor.float: torch.Tensor.double, torch.Tensor.half: torch.Tensor.double,
             torch.Tensor.bfloat16: torch.Tensor.double}
NARROW_TYPES = ("torch.FloatTensor", "torch.HalfTensor", "torch.BFloat16Tensor")


class Float64:
    """Context manager; float64 is the default dtype inside.

    strict    raise when leaving if any operation still produced a narrower float
    narrowed  how often each operation did, by its name
    """

    def __init__(self, strict=False):
        self.strict = strict
        self._functions = _PromotedFunctions()
        self._operations = _PromotedOperations()

    @property
    def narrowed(self):
        return self._operations.narrowed

    def __enter__(self):
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        self._operations.__enter__()
        self._functions.__enter__()
        return self

    def __exit__(self, kind, value, trace):
        self._functions.__exit__(kind, value, trace)
        self._operations.__exit__(kind, value, trace)
        torch.set_default_dtype(self._default)
        if self.strict and kind is None and self.narrowed:
            raise RuntimeError(f"Float64: expected no float narrower than float64, found {self._operations.summary()}")


class NarrowWatch(TorchDispatchMode):
    """Counts operations, forward and backward, whose result is a float narrower than float64."""

    def __init__(self):
        super().__init__()
        self.narrowed = collections.Counter()

    def summary(self):
        return ", ".join(f"{name} ({count} times)" for name, count in sorted(self.narrowed.items()))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if any(_is_narrow_tensor(item) for item in tree_flatten(result)[0]):
            self.narrowed[str(func)] += 1
        return result


class _PromotedFunctions(TorchFunctionMode):
    """Answers each request of Python code for a narrower float, in whatever argument, with float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        func = NARROWING.get(func, func)
        return func(*tree_map(_promoted, args), **tree_map(_promoted, kwargs or {}))


class _PromotedOperations(NarrowWatch):
    """The same where an operation is dispatched; what comes out narrow all the same is counted."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, tree_map(_promoted, args), tree_map(_promoted, kwargs or {}))


def _promoted(item):
    if isinstance(item, torch.dtype) and item in NARROW:
        return torch.float64
    if isinstance(item, str) and item in NARROW_TYPES:
        return "torch.DoubleTensor"
    return item


def _is_narrow_tensor(item):
    return isinstance(item, torch.Tensor) and item.dtype in NARROW
