"""A model with context parallelism of its own, and the two steps that are compared: put yours in their place."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

VOCAB, WIDTH, HEADS, LAYERS = 1000, 128, 4, 2


# ---- your model, and your context parallelism -------------------------------------------------------------------------


class Gather(torch.autograd.Function):
    """Keys or values of all ranks, one behind another; their gradients are summed and go back to whose they are."""

    @staticmethod
    def forward(context, part):
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim=2)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size(), dim=2)[dist.get_rank()]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.parallel = False

    def forward(self, x, positions):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        every = positions
        if self.parallel:
            k, v = Gather.apply(k), Gather.apply(v)
            every = torch.arange(k.shape[2])  # ranks hold contiguous parts
        sees = positions[:, :, None] >= every.expand(len(x), -1)[:, None]
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=sees[:, None])
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(512, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, positions):
        x = self.embed(ids) + self.place(positions)
        for layer in self.layers:
            x = layer(x, positions)
        return self.head(self.norm(x))


def parallelize(model):
    for layer in model.layers:
        layer.parallel = True
    return model


# ---- the two steps ----------------------------------------------------------------------------------------------------


def build(r):
    """The same weights in both steps: from one seed."""
    torch.manual_seed(0)
    return Model().to(r.dtype)


def train(r, model):
    """One training step, as you do it, and what came out of it."""
    b = r.batch()  # this rank's part: cut, padded, labels already shifted
    logits = model(b.input_ids, b.position_ids)
    losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
    loss = losses.sum() / b.num_items  # of the whole step, not of this rank
    loss.backward()
    r.loss(loss)
    r.token_loss(losses)
    r.logits(logits)


def reference_step(r):
    """Unsharded; runs in a process of its own."""
    train(r, r.watch(build(r)))


def step(r):
    """Sharded; runs on every rank."""
    train(r, r.watch(parallelize(build(r))))
