"""Fixtures of an attention function alone: what it is given, and this rank's part of it."""

from dataclasses import dataclass

import numpy as np

from cpeq.batch import Cut, documents, position_ids
from cpeq.fixture import Fixture
from cpeq.storage import FormatError, attribute

INPUTS = ("q", "k", "v", "dout")
NUMBERS = {"causal": 1, "window": 0, "chunk": 0, "softcap": 0.0}


class AttentionFixture(Fixture):
    """A fixture of kind "attention"; like Fixture, without config and weights, and with what its attributes say.

    batch    q, dout [B,T,H,D], k, v [B,T,K,D], and perhaps sink [H], attention_mask, position_ids, document_ids
    scale    what scores are multiplied by
    causal   whether a query sees no later key
    window   how many tokens a query sees, itself the last; 0: all
    chunk    a query sees tokens of its own chunk of that many only; 0: of all
    softcap  score becomes softcap * tanh(score / softcap); 0: it stays
    """

    KIND = "attention"

    def _read_attributes(self, file):
        scale = attribute(file, "scale")
        self.scale = self.batch["q"].shape[-1] ** -0.5 if scale is None else float(scale)
        for name, default in NUMBERS.items():
            value = attribute(file, name)
            setattr(self, name, default if value is None else type(default)(value))
        self.causal = bool(self.causal)

    def _check_batch(self):
        missing = [name for name in INPUTS if name not in self.batch]
        if missing:
            raise FormatError(f"{self.path}: /batch: expected {', '.join(INPUTS)}, found no {', '.join(missing)}")
        self._check_shapes(INPUTS, axes=2)
        self._check_shapes(("attention_mask", "position_ids", "document_ids"))

    @property
    def shape(self):
        return self.batch["q"].shape[:2]

    def local(self, rank=0, size=1, layout="contiguous", dtype=np.float64):
        """The AttentionBatch that this rank of size ranks holds; floats, whatever they are stored as, in dtype."""
        cut, sink = Cut(self, rank, size, layout), self.batch.get("sink")
        mask = self.batch.get("attention_mask", np.ones(self.shape, np.uint8))
        return AttentionBatch(**{name: cut.take(self.batch[name].astype(dtype), 0) for name in INPUTS},
                              sink=None if sink is None else sink.astype(dtype),
                              position_ids=cut.carry(position_ids(self)), document_ids=cut.take(documents(self), -1),
                              attention_mask=cut.take(mask, 0), token_index=cut.token_index)


@dataclass(frozen=True)
class AttentionBatch:
    """One rank's tokens of what an attention function is given, S of each row; padding added for the cut is 0.

    q, k, v, dout   float [B,S,heads,D]
    sink            float [H], or None
    position_ids, document_ids, attention_mask, token_index   as in LocalBatch
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    dout: np.ndarray
    sink: np.ndarray
    position_ids: np.ndarray
    document_ids: np.ndarray
    attention_mask: np.ndarray
    token_index: np.ndarray
