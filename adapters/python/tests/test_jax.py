"""cpeq.jax on a llama and an attention of a few lines."""

import unittest

import numpy as np

import cpeq
from tests.support import GOLDEN, FolderTest, needs_program, needs_torch

needs_torch("jax")
needs_program()

import jax
import jax.numpy as jnp

import cpeq.jax

jax.config.update("jax_enable_x64", True)


def nested(named):
    """Dotted names as a tree of dicts, which is what JAX models have."""
    tree = {}
    for name, leaf in named.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = leaf
    return tree


def attention(q, k, v, sees, scale):
    repeat = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, repeat, axis=2) for x in (k, v))
    scores = jnp.where(sees[:, None], jnp.einsum("bqhd,bkhd->bhqk", q, k) * scale, -jnp.inf)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return out, jax.scipy.special.logsumexp(scores, axis=-1).swapaxes(1, 2)


def llama(params, b, config):
    model, eps, head = params["model"], config["rms_norm_eps"], config["head_dim"]
    documents = b.document_ids
    causal = jnp.arange(documents.shape[1])[:, None] >= jnp.arange(documents.shape[1])
    sees = causal & (documents[:, :, None] == documents[:, None])
    frequency = config["rope_parameters"]["rope_theta"] ** -(jnp.arange(0, head, 2) / head)
    angle = b.position_ids[..., None, None] * frequency

    def norm(x, w):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps) * w["weight"]

    def rotate(x):
        first, second = jnp.split(x, 2, -1)
        return jnp.concatenate([first * jnp.cos(angle) - second * jnp.sin(angle),
                                second * jnp.cos(angle) + first * jnp.sin(angle)], -1)

    x = model["embed_tokens"]["weight"][b.input_ids]
    for n in range(config["num_hidden_layers"]):
        layer = model["layers"][str(n)]
        y, own = norm(x, layer["input_layernorm"]), layer["self_attn"]
        q, k, v = ((y @ own[f"{name}_proj"]["weight"].T).reshape(*y.shape[:2], -1, head) for name in "qkv")
        y = attention(rotate(q), rotate(k), v, sees, head**-0.5)[0]
        x = x + y.reshape(*y.shape[:2], -1) @ own["o_proj"]["weight"].T
        y, own = norm(x, layer["post_attention_layernorm"]), layer["mlp"]
        gate, up = (y @ own[f"{name}_proj"]["weight"].T for name in ("gate", "up"))
        x = x + (jax.nn.silu(gate) * up) @ own["down_proj"]["weight"].T
    return norm(x, model["norm"]) @ params["lm_head"]["weight"].T


def step(params, b, config):
    def loss(params):
        logits = llama(params, b, config)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(b.shift_labels, 0)[..., None], -1)[..., 0]
        losses = jnp.where(b.shift_labels >= 0, -picked, 0)
        return losses.sum() / b.num_items, (losses, logits)

    return jax.value_and_grad(loss, has_aux=True)(params)


class Steps(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.fixture = cpeq.Fixture(GOLDEN / "llama" / "packed7.h5")
        cls.params, cls.b = nested(cpeq.jax.weights(cls.fixture)), cpeq.jax.batch(cls.fixture)
        cls.result = jax.jit(lambda params: step(params, cls.b, cls.fixture.config))(cls.params)

    def test_a_step_from_a_tree_is_the_same(self):
        fixture, params, b, ((loss, (losses, logits)), grads) = self.fixture, self.params, self.b, self.result
        cpeq.jax.write_step(self.folder, fixture=fixture, grads=grads, loss=loss, token_loss=losses, logits=logits,
                            params=params, inputs_ran={"input_ids": b.input_ids})
        verdict = cpeq.judge(fixture, self.folder).check()
        self.assertIn("21 of 21 weights", verdict.text)

    def test_names_and_layouts_of_its_own(self):
        """Gradients stored [in, out] in lists of layers, as JAX models have them; bfloat16 keeps its bits."""
        fixture, ((loss, (losses, logits)), grads) = self.fixture, self.result
        grads = {"model": dict(grads["model"]), "lm_head": grads["lm_head"]}
        grads["head"] = {"kernel": grads.pop("lm_head")["weight"].T}
        grads["model"]["layers"] = [grads["model"]["layers"][str(n)] for n in range(2)]
        cpeq.jax.write_step(self.folder, fixture=fixture, grads=grads, loss=loss, token_loss=losses, logits=logits,
                            name_map=[{"theirs": "head.kernel", "ours": ["lm_head.weight"], "transpose": True}])
        cpeq.assert_same(fixture, self.folder)
        cpeq.jax.write_step(self.path("half.h5"), fixture=fixture, grads={"w": jnp.ones(2, jnp.bfloat16), "v": None})
        import h5py
        with h5py.File(self.path("half.h5")) as file:
            self.assertEqual((file["grads/w"][0], file["grads/w"].attrs["dtype"]), (0x3F80, "bfloat16"))
            self.assertEqual((list(file.attrs["grad_absent"]), file.attrs["compute_dtype"]), (["v"], "bfloat16"))

    def test_an_attention_function(self):
        fixture = cpeq.AttentionFixture(GOLDEN.parent / "attention" / "packed16.h5")
        b = fixture.local()
        sees = (b.document_ids[:, :, None] == b.document_ids[:, None]) & np.tril(np.ones((16, 16), bool))
        cpeq.jax.run_attention(lambda q, k, v: attention(q, k, v, sees, fixture.scale), self.path("dump.h5"),
                               fixture=fixture, exchange="ring", cp_size=2)
        cpeq.assert_same(fixture, self.path("dump.h5"))


if __name__ == "__main__":
    unittest.main()
