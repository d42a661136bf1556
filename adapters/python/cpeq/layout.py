"""Which rank holds which token, and how much padding that needs.

A layout cuts the padded row into equal pieces and deals them out; it is data, so another one is
another entry of LAYOUTS.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np


@dataclass(frozen=True)
class Layout:
    """pieces(size): into how many equal pieces a row is cut, which is also the multiple it is padded to;
    held(rank, size): the pieces of a rank, in the order in which it holds them."""

    pieces: Callable
    held: Callable


LAYOUTS = {
    "contiguous": Layout(pieces=lambda size: size, held=lambda rank, size: [rank]),
    "zigzag": Layout(pieces=lambda size: 2 * size, held=lambda rank, size: [rank, 2 * size - 1 - rank]),
}


def find(name):
    if name not in LAYOUTS:
        raise ValueError(f"layout \"{name}\": expected one of {', '.join(sorted(LAYOUTS))}")
    return LAYOUTS[name]


def padded_length(length, size, layout="contiguous"):
    """The smallest length >= length that the layout can cut evenly over size ranks."""
    multiple = find(layout).pieces(size)
    return -(-length // multiple) * multiple


def global_indices(length, rank, size, layout="contiguous"):
    """int64 [S]: global index of each local position of this rank; -1 at padding added to a row of length."""
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank}: expected 0 to {size - 1}")
    held = find(layout).held(rank, size)
    piece = padded_length(length, size, layout) // find(layout).pieces(size)
    indices = np.concatenate([np.arange(p * piece, (p + 1) * piece, dtype=np.int64) for p in held])
    return np.where(indices < length, indices, -1)
