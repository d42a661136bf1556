"""Fixtures of an attention function, cut over ranks and run by numpy; the verdict is the program's."""

import unittest

import numpy as np

import cpeq
from tests.support import GOLDEN, FolderTest, needs_program

needs_program()

FOLDER = GOLDEN.parent / "attention"
SIZE = 2


def attend(b, whole, fixture):
    """Output and its gradients of this rank's queries over all keys of the row; window and sink are left out."""
    repeat = b.q.shape[2] // whole.k.shape[2]
    k, v = (np.repeat(array, repeat, axis=2) for array in (whole.k, whole.v))
    sees = (b.document_ids[:, :, None] == whole.document_ids[:, None]) & (b.document_ids >= 0)[:, :, None]
    if fixture.causal:
        sees = sees & (np.broadcast_to(b.token_index, b.document_ids.shape)[:, :, None] >= np.arange(k.shape[1]))
    scores = np.where(sees[:, None], np.einsum("bqhd,bkhd->bhqk", b.q, k) * fixture.scale, -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.where(sees.any(-1)[:, None], scores.max(-1), 0)[..., None]
        total = np.exp(scores - top).sum(-1, keepdims=True)
        p = np.where(total > 0, np.exp(scores - top) / np.where(total > 0, total, 1), 0)
        lse = (np.log(total) + top)[..., 0].swapaxes(1, 2)
    dp = np.einsum("bqhd,bkhd->bhqk", b.dout, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * fixture.scale
    keys = {"dk": np.einsum("bhqk,bqhd->bkhd", ds, b.q), "dv": np.einsum("bhqk,bqhd->bkhd", p, b.dout)}
    keys = {name: g.reshape(*g.shape[:2], -1, repeat, g.shape[3]).sum(3) for name, g in keys.items()}
    return {"out": np.einsum("bhqk,bkhd->bqhd", p, v), "lse": lse, "dq": np.einsum("bhqk,bkhd->bqhd", ds, k)}, keys


class Attention(FolderTest):
    def test_ranks_of_a_numpy_attention_are_the_same(self):
        for name in ("packed16", "left12", "both_ways12"):
            with self.subTest(name):
                fixture = cpeq.AttentionFixture(FOLDER / f"{name}.h5")
                whole = fixture.local()
                ranks = [fixture.local(rank, SIZE, "zigzag") for rank in range(SIZE)]
                parts = [attend(b, whole, fixture) for b in ranks]
                for rank, b in enumerate(ranks):
                    keys = {key: np.take(sum(part[1][key] for part in parts), np.maximum(b.token_index, 0), axis=1)
                            for key in ("dk", "dv")}
                    cpeq.write_attention(self.path(f"{name}/rank-{rank:04d}.h5"), fixture_id=fixture.id,
                                         implementation="numpy", token_index=b.token_index, cp_size=SIZE, cp_rank=rank,
                                         compute_dtype="float64", **parts[rank][0], **keys)
                cpeq.assert_same(fixture, self.path(name))

    def test_what_the_attributes_say(self):
        plain, window = (cpeq.AttentionFixture(FOLDER / f"{name}.h5") for name in ("full12", "window16"))
        self.assertEqual((plain.causal, plain.window, plain.chunk, plain.softcap), (True, 0, 0, 0.0))
        self.assertGreater(window.window, 0)

    def test_a_step_is_no_attention(self):
        with self.assertRaisesRegex(cpeq.FormatError, 'expected "attention"'):
            cpeq.AttentionFixture(GOLDEN / "llama" / "full5.h5")


if __name__ == "__main__":
    unittest.main()
