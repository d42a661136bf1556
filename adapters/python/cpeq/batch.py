"""This rank's part of a batch: labels are shifted, targets counted and documents found on whole rows, before any cut."""

from dataclasses import dataclass

import numpy as np

from cpeq import layout as layouts
from cpeq.fixture import FormatError

IGNORED = -100


@dataclass(frozen=True)
class LocalBatch:
    """One rank's rows, S positions each; at padding added for context parallelism token_index is -1.

    input_ids       int64 [B,S], or None      padding: pad_token_id, or 0
    inputs_embeds   float [B,S,C], or None    padding: 0
    position_ids    int64 [B,S]               padding: counts on from the position before it
    shift_labels    int64 [B,S]               already shifted; padding and ignored: -100
    document_ids    int64 [B,S]               padding of any kind: -1
    attention_mask  uint8 [B,S]               padding of any kind: 0
    token_index     int64 [S]                 global index of each local position; [B,S] where rows differ, which
                                              they do with layout per_document
    batch_index     int64 [B]                 global row of each local row
    loss_count      targets among these positions
    num_items       the divisor of the whole step's loss: sum of token losses / num_items
    """

    input_ids: np.ndarray
    inputs_embeds: np.ndarray
    position_ids: np.ndarray
    shift_labels: np.ndarray
    document_ids: np.ndarray
    attention_mask: np.ndarray
    token_index: np.ndarray
    batch_index: np.ndarray
    loss_count: int
    num_items: float


def local_batch(fixture, rank=0, size=1, layout="contiguous", rows=None):
    """The part of fixture's batch that this rank of size ranks holds.

    rows: which rows of the batch, for data parallelism or accumulation; all of them if absent.
    """
    batch, cut = fixture.batch, Cut(fixture, rank, size, layout, rows)
    labels = cut.take(shift_labels(fixture), IGNORED)
    ids, embeds = batch.get("input_ids"), batch.get("inputs_embeds")
    return LocalBatch(
        input_ids=None if ids is None else cut.take(ids, fixture.config.get("pad_token_id") or 0),
        inputs_embeds=None if embeds is None else cut.take(embeds, 0),
        position_ids=cut.carry(position_ids(fixture)),
        shift_labels=labels,
        document_ids=cut.take(documents(fixture), -1),
        attention_mask=cut.take(batch.get("attention_mask", np.ones(fixture.shape, np.uint8)), 0),
        token_index=cut.token_index,
        batch_index=cut.rows,
        loss_count=int((labels != IGNORED).sum()),
        num_items=divisor(fixture),
    )


class Cut:
    """Which tokens of which rows one rank holds.

    rows         int64 [B]: global row of each local row
    token_index  int64 [S], or [B,S] where rows differ: as in LocalBatch
    """

    def __init__(self, fixture, rank, size, layout, rows=None):
        self.rows = np.arange(fixture.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)
        found = documents(fixture)[self.rows]
        self._homes = layouts.padded_rows(found, size, layout)
        self._places = layouts.local_places(found, rank, size, layout)
        self._index = np.take_along_axis(self._homes, self._places, axis=1)
        self.token_index = self._index[0] if (self._index == self._index[:1]).all() else self._index

    def take(self, array, fill):
        """This rank's part of array [all rows,T,...]; fill stands at padding that was added."""
        values = np.take_along_axis(array[self.rows], _columns(np.maximum(self._index, 0), array), axis=1)
        return np.where(_columns(self._index, array) >= 0, values, np.array(fill, array.dtype))

    def carry(self, positions):
        """This rank's part of positions [all rows,T]; padding that was added counts on."""
        return np.take_along_axis(_carried(positions[self.rows], self._homes), self._places, axis=1)


def shift_labels(fixture):
    """int64 [B,T]: the target of each position of the whole rows, -100 where there is none."""
    if "shift_labels" in fixture.batch:
        return fixture.batch["shift_labels"]
    if "labels" not in fixture.batch:
        raise FormatError(f"{fixture.path}: /batch: expected labels or shift_labels, found neither")
    labels = fixture.batch["labels"]
    return np.concatenate([labels[:, 1:], np.full((len(labels), 1), IGNORED, labels.dtype)], axis=1)


def divisor(fixture):
    """What the sum of all token losses is divided by."""
    if "num_items_in_batch" in fixture.batch:
        return fixture.batch["num_items_in_batch"].item()
    return int((shift_labels(fixture) != IGNORED).sum())


def position_ids(fixture):
    """int64 [B,T]: as passed to the model; counted from the start of the row where the fixture has none."""
    count, length = fixture.shape
    return fixture.batch.get("position_ids", np.tile(np.arange(length, dtype=np.int64), (count, 1)))


def documents(fixture):
    """int64 [B,T]: document of each position, -1 at padding.

    Without document_ids a document starts where position_ids do anything but count up by one.
    """
    batch = fixture.batch
    if "document_ids" in batch:
        return batch["document_ids"]
    found = np.zeros(fixture.shape, np.int64)
    if "position_ids" in batch:
        found[:, 1:] = np.cumsum(np.diff(batch["position_ids"], axis=1) != 1, axis=1)
    mask = batch.get("attention_mask")
    if mask is None:
        return found
    if found.any():
        raise FormatError(f"{fixture.path}: /batch: expected document_ids beside restarting position_ids and an"
                          " attention_mask, found none")
    return np.where(mask != 0, found, -1)


def _columns(index, array):
    """index [B,S] with as many axes as array [B,T,...]."""
    return index.reshape(*index.shape, *(1,) * (array.ndim - 2))


def _carried(positions, homes):
    """positions [B,T] at their places in the padded rows; padding counts on."""
    places = np.arange(homes.shape[1])
    before = np.maximum.accumulate(np.where(homes >= 0, places, 0), axis=1)
    return np.take_along_axis(positions, np.take_along_axis(homes, before, axis=1), axis=1) + places - before
