"""A llama with context parallelism of its own, run on fixtures; each rank writes a dump of what it computed.

    torchrun --nproc-per-node 2 step.py OUT FIXTURE...

The dump of a fixture FAMILY/NAME.h5 is the folder OUT/LAYOUT/FAMILY/NAME. What stands between the two lines is the
implementation that is gated; put yours there.
"""

import pathlib
import sys

import cpeq
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

# ---- the implementation ---------------------------------------------------------------------------------------------


class Gather(torch.autograd.Function):
    """All ranks' parts of the keys, one behind another. Backward: each rank gets back the sum of what all ranks found."""

    @staticmethod
    def forward(context, part, dim):
        context.dim = dim
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size(), context.dim)[dist.get_rank()], None


class Tokens:
    """Where this rank's tokens stand, and which of all ranks' tokens each of them sees: [B,1,S,P·S]."""

    def __init__(self, positions, index, documents):
        self.positions = positions
        index = index.expand(documents.shape)
        all_index, all_documents = Gather.apply(index, 1), Gather.apply(documents, 1)
        sees = (documents[:, :, None] == all_documents[:, None, :]) & (all_index[:, None, :] <= index[:, :, None])
        padding = documents < 0  # sees everything: a row without a key has no softmax
        self.sees = (sees & (all_documents >= 0)[:, None, :] | padding[:, :, None])[:, None]


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, self.head = config["hidden_size"], config["head_dim"]
        heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = nn.Linear(size, heads * self.head, bias=False)
        self.k_proj = nn.Linear(size, shared * self.head, bias=False)
        self.v_proj = nn.Linear(size, shared * self.head, bias=False)
        self.o_proj = nn.Linear(heads * self.head, size, bias=False)
        self.repeat = heads // shared
        power = torch.arange(0, self.head, 2, dtype=torch.float64) / self.head
        self.register_buffer("frequency", config["rope_parameters"]["rope_theta"] ** -power, persistent=False)

    def rotate(self, x, positions):
        angle = positions[:, None, :, None].to(x.dtype) * self.frequency
        cos, sin = angle.cos().repeat(1, 1, 1, 2), angle.sin().repeat(1, 1, 1, 2)
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def forward(self, x, tokens):
        def split(y):
            return y.unflatten(-1, (-1, self.head)).transpose(1, 2)

        q = self.rotate(split(self.q_proj(x)), tokens.positions)
        k = Gather.apply(self.rotate(split(self.k_proj(x)), tokens.positions), 2).repeat_interleave(self.repeat, dim=1)
        v = Gather.apply(split(self.v_proj(x)), 2).repeat_interleave(self.repeat, dim=1)
        scores = (q @ k.transpose(2, 3) * self.head**-0.5).masked_fill(~tokens.sees, float("-inf"))
        return self.o_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config["hidden_size"], config["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(config["hidden_size"], config["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(config["intermediate_size"], config["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.mlp = MLP(config)

    def forward(self, x, tokens):
        x = x + self.self_attn(self.input_layernorm(x), tokens)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Parameters are called as transformers calls them, so that the fixture's weights fit."""

    def __init__(self, config):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"],
                                               padding_idx=config["pad_token_id"])  # its row gets no gradient
        self.model.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.model.norm = nn.RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, tokens=None):
        x = self.model.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.model.layers:
            x = layer(x, tokens)
        return self.lm_head(self.model.norm(x))


# ---- its gate -------------------------------------------------------------------------------------------------------


def gate(path, out, layout):
    """One training step on a fixture, and the dump of this rank."""
    fixture, rank, size = cpeq.Fixture(path), dist.get_rank(), dist.get_world_size()
    with cpeq.Float64():
        model = Llama(fixture.config).double()
        model.load_state_dict({name: torch.from_numpy(weight) for name, weight in fixture.weights.items()})
        with cpeq.record(model, fixture=fixture, out=out, rank=rank, size=size, layout=layout, exchange="allgather",
                         loss="share", gradients="partial", implementation="examples/gate") as r:
            b = r.batch()  # this rank's part: cut, padded, labels shifted before the cut
            tokens = Tokens(b.position_ids, b.token_index, b.document_ids)
            logits = model(b.input_ids, b.inputs_embeds, b.position_ids, tokens)
            losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
            loss = losses.sum() / b.num_items  # of the whole step, not of this rank
            loss.backward()
            r.loss(loss)
            r.token_loss(losses)
            r.logits(logits)


LAYOUTS = ("contiguous", "zigzag")


def main():
    out, *fixtures = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for path in map(pathlib.Path, fixtures):
        for layout in LAYOUTS:
            gate(path, str(pathlib.Path(out, layout, path.parent.name, path.stem)), layout)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
