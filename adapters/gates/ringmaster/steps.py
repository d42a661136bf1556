"""The ways in which ringmaster runs one training step; each leaves one rank's dump.

A recipe is a function (context, fixture, out). What ringmaster refuses it refuses by an exception.
"""

import functools
import logging
from dataclasses import dataclass

import ringmaster
import torch
from ringmaster import Backend, LoadBalance, RingmasterConfig, RotateMethod
from ringmaster.adapters.raw import context_parallel_region
from ringmaster.shard import varlen_meta
from ringmaster.strategies.ring import make_ring_attention
from ringmaster.strategies.usp import make_usp_attention
from transformers import AttentionInterface

import cpeq
import cpeq.transformers
from cpeq.batch import divisor, position_ids

logging.getLogger("ringmaster.ring.p2p_attn").setLevel(logging.ERROR)  # it warns that there is no GPU kernel

VERSION = f"axolotl-ringmaster {ringmaster.__version__}"


@dataclass(frozen=True)
class Context:
    """Where a step runs: its place in the context-parallel group, and the device mesh of that group."""

    rank: int
    size: int
    mesh: torch.distributed.DeviceMesh


def context(rank, size):
    return Context(rank, size, torch.distributed.init_device_mesh("cpu", (size,), mesh_dim_names=("cp",)))


read = cpeq.Fixture


@dataclass(frozen=True)
class Exchange:
    """One of ringmaster's ways of exchanging keys, in our words and in its own."""

    name: str
    layout: str
    options: dict


ULYSSES = Exchange("ulysses", "contiguous", {"backend": Backend.ULYSSES})
ALLGATHER = Exchange("allgather", "contiguous", {"backend": Backend.RING})
P2P = Exchange("ring", "contiguous", {"backend": Backend.RING, "rotate_method": RotateMethod.ALLTOALL})
DISTFLASH = Exchange("distflash", "contiguous", {"backend": Backend.RING, "load_balance": LoadBalance.DISTFLASH})
ZIGZAG = Exchange("ring", "zigzag", {"backend": Backend.RING, "load_balance": LoadBalance.HEAD_TAIL})
USP = Exchange("usp:2x2", "contiguous", {"ulysses_size": 2, "ring_size": 2})


def attention(exchange, context, fixture, out):
    """ringmaster's attention alone: batch, shift, divisor and documents come from cpeq."""
    model, runtime = _model(context, fixture, exchange)
    with _recording(context, model, fixture, out, exchange, loss="share", gradients="partial") as r:
        batch = r.batch()
        runtime.varlen = varlen_meta(torch.from_numpy(position_ids(fixture)), batch.token_index.numel() * context.size)
        tokens = {"input_ids": batch.input_ids, "inputs_embeds": batch.inputs_embeds}
        mask = batch.attention_mask if "attention_mask" in fixture.batch else None
        output = model(**tokens, position_ids=batch.position_ids, attention_mask=mask, use_cache=False)
        losses = torch.nn.functional.cross_entropy(output.logits.transpose(1, 2), batch.shift_labels, reduction="none")
        loss = losses.sum() / batch.num_items
        loss.backward()
        r.loss(loss)
        r.token_loss(losses)
        r.logits(output.logits)


def manager(context, fixture, out):
    """Its ContextParallelContextManager cuts the batch and replaces the divisor, as under a trainer.

    Its divisor is the average over ranks of their targets, so gradients are right as the ranks' mean,
    and the ranks' mean of the losses is the loss.
    """
    model, _ = _model(context, fixture, ULYSSES)
    managed = ringmaster.ContextParallelContextManager([model], context.mesh["cp"].get_group())
    with managed, _recording(context, model, fixture, out, ULYSSES, loss="share", gradients="mean") as r:
        inputs = cpeq.transformers.inputs(fixture)
        _record_embeds(r, inputs)
        output = model(**inputs | {"num_items_in_batch": divisor(fixture)})
        output.loss.backward()
        r.loss(output.loss / context.size)
        r.logits(output.logits)


def region(context, fixture, out):
    """The quick start of its README: context_parallel_region, then the model's own loss, gradients averaged."""
    model, _ = _model(context, fixture, ULYSSES)
    with _recording(context, model, fixture, out, ULYSSES, loss="local_mean", gradients="mean") as r:
        inputs = cpeq.transformers.inputs(fixture)
        _record_embeds(r, inputs)
        with context_parallel_region(inputs) as shard:
            output = model(**shard)
        output.loss.backward()
        r.loss(output.loss)
        r.logits(output.logits)


RECIPES = {
    "ulysses": functools.partial(attention, ULYSSES),
    "manager": manager,
    "region": region,
    "allgather": functools.partial(attention, ALLGATHER),
    "p2p": functools.partial(attention, P2P),
    "distflash": functools.partial(attention, DISTFLASH),
    "zigzag": functools.partial(attention, ZIGZAG),
    "usp": functools.partial(attention, USP),
}


def _record_embeds(recorder, inputs):
    if "inputs_embeds" in inputs:
        recorder.inputs_embeds(inputs["inputs_embeds"])


def _recording(context, model, fixture, out, exchange, **declared):
    return cpeq.record(model, fixture=fixture, out=out, rank=context.rank, size=context.size, layout=exchange.layout,
                       exchange=exchange.name, implementation=VERSION, **declared)


def _model(context, fixture, exchange):
    """The fixture's model with this exchange as its attention; blocks of a ring are computed by ringmaster's own
    plain-softmax kernel, since its others need a GPU."""
    config = RingmasterConfig(size=context.size, **exchange.options)
    runtime = ringmaster.setup(config, num_kv_heads=fixture.config["num_key_value_heads"], device_type="cpu",
                               device_mesh=None if exchange is USP else context.mesh, inner_attn="sdpa")
    make = {Backend.RING: make_ring_attention, Backend.USP: make_usp_attention}.get(config.backend)
    if make:
        AttentionInterface.register(runtime.attn_implementation, make("math", "math", config.rotate_method))
    return cpeq.transformers.load(fixture, attn_implementation=runtime.attn_implementation), runtime
