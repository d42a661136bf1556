"""The ways in which ring-attention-pytorch runs attention over ranks; each leaves one rank's dump.

A recipe is a function (context, fixture, out). What the package refuses it refuses by an exception.
"""

import functools
import pathlib
from dataclasses import dataclass

import numpy as np
import torch
from ring_attention_pytorch import ring_flash_attn
from ring_attention_pytorch.zig_zag_attention import zig_zag_attn, zig_zag_pad_seq, zig_zag_shard

import cpeq
from cpeq.batch import documents

VERSION = "ring-attention-pytorch 0.5.20"


@dataclass(frozen=True)
class Context:
    """Where a step runs."""

    rank: int
    size: int


context = Context
read = cpeq.AttentionFixture


def ring(context, fixture, out, layout="contiguous", bucket=None, reorder=True):
    """ring_flash_attn; blocks of bucket tokens, by default all of a rank, and of 1 under a window."""
    b = fixture.local(context.rank, context.size, layout)
    q, k, v, dout = (torch.from_numpy(array) for array in (b.q, b.k, b.v, b.dout))
    q, k, v = (tensor.requires_grad_() for tensor in (q, k, v))
    order = _its_heads(fixture) if reorder else torch.arange(q.shape[2])
    mask = torch.from_numpy(b.attention_mask).bool() if (fixture.shape[1] % context.size or "attention_mask"
                                                         in fixture.batch) else None
    result = ring_flash_attn(
        _scaled(fixture, q)[:, :, order], k, v, mask, causal=fixture.causal, ring_reduce_col=True,
        bucket_size=bucket or (1 if fixture.window else q.shape[1]), striped_ring_attn=layout == "striped",
        max_lookback_seq_len=fixture.window - 1 if fixture.window else None, ring_size=context.size,
        softclamp_qk_sim=fixture.softcap > 0, softclamp_value=fixture.softcap or 50.0)
    result = result[:, :, torch.argsort(order)]
    result.backward(dout)
    _write(context, fixture, out, result, (q.grad, k.grad, v.grad), b.token_index, layout=layout, exchange="ring")


def zigzag(context, fixture, out):
    """zig_zag_attn, its padding and its cut; the mask is the caller's, made from the positions that the cut gives."""
    whole = (torch.from_numpy(np.ascontiguousarray(fixture.batch[name].astype(np.float64).swapaxes(1, 2)))
             for name in ("q", "k", "v", "dout"))
    shards = [zig_zag_shard(zig_zag_pad_seq(tensor)[0])[0] for tensor in whole]
    at, keys = shards[0].query_positions, shards[0].key_value_positions
    q, k, v = (shard.local_sequence.detach().requires_grad_() for shard in shards[:3])
    order = _its_heads(fixture)
    result = zig_zag_attn(_scaled(fixture, q)[:, order], k, v, attn_mask=_visible(fixture, at, keys))
    result = result[:, torch.argsort(order)]
    result.backward(shards[3].local_sequence)
    index = torch.where(at < fixture.shape[1], at, -1)
    _write(context, fixture, out, result.transpose(1, 2), [tensor.grad.transpose(1, 2) for tensor in (q, k, v)],
           index.numpy(), layout="zigzag", exchange="allgather")


RECIPES = {
    "given": functools.partial(ring, reorder=False),
    "ring": ring,
    "buckets": functools.partial(ring, bucket=2),
    "striped": functools.partial(ring, layout="striped"),
    "zigzag": zigzag,
}


def _its_heads(fixture):
    """Query heads in its order: its head i takes key head i mod K, where the fixture's head i takes i div (H / K)."""
    heads, keys = fixture.batch["q"].shape[2], fixture.batch["k"].shape[2]
    return torch.arange(heads).reshape(keys, heads // keys).T.reshape(-1)


def _scaled(fixture, q):
    """Its scale is 1 / sqrt(D), and no argument."""
    return q * (fixture.scale * fixture.batch["q"].shape[-1] ** 0.5)


def _visible(fixture, queries, keys):
    """Which keys a query sees, bool [B,1,S,T]; padding sees all of it, so that no row is empty."""
    places = max(int(keys.max()) + 1, fixture.shape[1])
    ids = np.full((fixture.shape[0], places), -1, np.int64)
    ids[:, :fixture.shape[1]] = documents(fixture)
    ids, i, j = torch.from_numpy(ids), queries[:, None], keys[None, :]
    seen = ids[:, queries][:, :, None] == ids[:, keys][:, None, :]
    if fixture.causal:
        seen = seen & (j <= i)
    if fixture.window:
        seen = seen & (j > i - fixture.window)
    if fixture.chunk:
        seen = seen & (j // fixture.chunk == i // fixture.chunk)
    return seen[:, None]


def _write(context, fixture, out, result, gradients, token_index, **declared):
    dq, dk, dv = (gradient.numpy() for gradient in gradients)
    cpeq.write_attention(pathlib.Path(out) / f"rank-{context.rank:04d}.h5", fixture_id=fixture.id, implementation=VERSION,
                         cp_size=context.size, cp_rank=context.rank, compute_dtype="float64", out=result.detach().numpy(),
                         dq=dq, dk=dk, dv=dv, token_index=token_index, **declared)
