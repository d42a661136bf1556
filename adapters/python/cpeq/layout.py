"""Which rank holds which token, and how much padding that needs.

    contiguous     rank r holds the r-th of size equal pieces
    zigzag         of 2 size equal pieces the r-th and the r-th from the end
    striped:B      blocks of B tokens are dealt out in turn; striped alone: of 1
    uneven:a:b:…   a tokens on rank 0, b on rank 1, …, 0 among them; uneven alone: as equal as can be. Never padded
    per_document   every document of a row zigzagged by itself, padded to a multiple of 2 size

Rows are padded at their ends, with per_document behind each document, and to the length of the longest row.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np


@dataclass(frozen=True)
class Layout:
    """multiple(size): what a row, or each of its documents, is padded to a multiple of;
    held(places, size): the places of each rank, in the order in which it holds them."""

    multiple: Callable
    held: Callable
    by_document: bool = False


def _contiguous(places, size):
    return np.split(np.arange(places), size)


def _zigzag(places, size):
    pieces = np.split(np.arange(places), 2 * size)
    return [np.concatenate([pieces[rank], pieces[-1 - rank]]) for rank in range(size)]


def _striped(block):
    def held(places, size):
        return list(np.arange(places).reshape(-1, size, block).swapaxes(0, 1).reshape(size, -1))

    return Layout(multiple=lambda size: size * block, held=held)


def _uneven(cuts):
    def held(places, size):
        if cuts and (len(cuts) != size or sum(cuts) != places):
            raise ValueError(f"layout \"uneven:{':'.join(map(str, cuts))}\": expected the tokens of {size} ranks,"
                             f" {places} in all, found those of {len(cuts)}, {sum(cuts)} in all")
        return np.split(np.arange(places), np.cumsum(cuts[:-1])) if cuts else np.array_split(np.arange(places), size)

    return Layout(multiple=lambda size: 1, held=held)


LAYOUTS = {
    "contiguous": Layout(multiple=lambda size: size, held=_contiguous),
    "zigzag": Layout(multiple=lambda size: 2 * size, held=_zigzag),
    "striped": _striped(1),
    "uneven": _uneven([]),
    "per_document": Layout(multiple=lambda size: 2 * size, held=_zigzag, by_document=True),
}


def find(name):
    """The layout of a name, with its numbers: "striped:4", "uneven:3:1:0"."""
    kind, given, rest = name.partition(":")
    numbers = rest.replace(",", ":").split(":") if given else []
    digits = all(number.isascii() and number.isdigit() for number in numbers)
    if kind == "striped" and len(numbers) == 1 and digits and int(numbers[0]) > 0:
        return _striped(int(numbers[0]))
    if kind == "uneven" and numbers and digits:
        return _uneven([int(number) for number in numbers])
    if name not in LAYOUTS:
        raise ValueError(f"layout \"{name}\": expected one of contiguous, zigzag, striped[:block],"
                         " uneven[:tokens of each rank], per_document")
    return LAYOUTS[name]


def padded_length(length, size, layout="contiguous"):
    """The smallest length >= length that the layout can cut over size ranks, in a row that is one document."""
    multiple = find(layout).multiple(size)
    return -(-length // multiple) * multiple


def padded_rows(documents, size, layout="contiguous"):
    """int64 [B,padded]: index in the row of each place, -1 at padding. documents [B,T]; -1, padding of the batch's own,
    belongs to the document before it."""
    rows = []
    for row in np.asarray(documents):
        homes = []
        for begin, end in _spans(row, layout):
            padding = padded_length(end - begin, size, layout) - (end - begin)
            homes += [np.arange(begin, end), np.full(padding, -1)]
        rows.append(np.concatenate(homes))
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, longest - len(row)), constant_values=-1) for row in rows]).astype(np.int64)


def local_places(documents, rank, size, layout="contiguous"):
    """int64 [B,S]: places in the padded rows that this rank holds, in its order."""
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank}: expected 0 to {size - 1}")
    longest = padded_rows(documents, size, layout).shape[1]
    held = find(layout).held
    rows = []
    for row in np.asarray(documents):
        first, places = 0, []
        for begin, end in _spans(row, layout):
            length = padded_length(end - begin, size, layout)
            places.append(first + held(length, size)[rank])
            first += length
        if first < longest:
            places.append(first + held(longest - first, size)[rank])
        rows.append(np.concatenate(places))
    return np.stack(rows).astype(np.int64)


def global_indices(length, rank, size, layout="contiguous", documents=None):
    """int64 [S]: index in the row of each local position of this rank; -1 at padding added to a row of length.

    documents [length]: which document each token belongs to, for per_document; one if absent."""
    row = np.zeros((1, length), np.int64) if documents is None else np.asarray(documents).reshape(1, length)
    return padded_rows(row, size, layout)[0][local_places(row, rank, size, layout)[0]]


def _spans(row, layout):
    """Begin and end of what is padded and cut by itself."""
    if not find(layout).by_document:
        return [(0, len(row))]
    last = np.maximum.accumulate(np.where(row >= 0, np.arange(len(row)), -1))
    first_real = int(np.argmax(row >= 0))
    joined = row[np.where(last < 0, first_real, last)]
    borders = (np.flatnonzero(np.diff(joined)) + 1).tolist()
    return list(zip([0, *borders], [*borders, len(row)]))
