"""Float64, record and transformers.load against golden fixtures.

Skipped with a loud line where torch or transformers is missing; with CPEQ_REQUIRE_TORCH=1, as the gates set it, that
is a failure instead.
"""

import os
import unittest

import h5py
import numpy as np

from cpeq import Fixture, FormatError
from tests.support import GOLDEN, FolderTest, needs_torch

needs_torch("transformers")

import torch

import cpeq
import cpeq.transformers
from cpeq.recorder import stripped

LIMIT = 1e-13
FAMILIES = ("llama", "llama_kv4", "qwen3", "mistral", "gemma3_text", "mixtral")
CASES = ("full7", "embeds7", "packed7", "right7", "items7")


def golden(name):
    path = GOLDEN / f"{name}.h5"
    if not path.exists():
        raise RuntimeError(f"{path}: expected a golden fixture (CPEQ_FIXTURES names their folder), found nothing")
    return Fixture(path)


def relative(actual, expected):
    return np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-300)


def step(fixture, model):
    inputs = cpeq.transformers.inputs(fixture)
    output = model(**inputs)
    output.loss.backward()
    grads = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
    if "inputs_embeds" in inputs:
        grads["inputs_embeds"] = inputs["inputs_embeds"].grad.numpy()
    return output, grads


class Transformers(unittest.TestCase):
    def test_float64_reproduces_golden_results(self):
        for family in FAMILIES:
            for case in CASES:
                if (GOLDEN / family / f"{case}.h5").exists():
                    with self.subTest(fixture=f"{family}/{case}"):
                        self.check(golden(f"{family}/{case}"))

    def check(self, fixture):
        model = cpeq.transformers.load(fixture)
        with cpeq.Float64(strict=True):
            output, grads = step(fixture, model)
        expected, real = fixture.expected, cpeq.documents(fixture) >= 0
        self.assertLessEqual(abs(output.loss.item() - expected["loss"]), LIMIT * expected["loss"])
        self.assertLessEqual(relative(output.logits.detach().numpy()[real], expected["logits"][real]), LIMIT)
        for name, truth in expected["grads"].items():
            self.assertLessEqual(relative(grads.get(name, np.zeros_like(truth)), truth), LIMIT, name)

    def test_a_model_merely_in_double_is_not_that_accurate(self):
        fixture = golden("llama/full7")
        _, grads = step(fixture, cpeq.transformers.load(fixture))
        worst = max(relative(grads[name], truth) for name, truth in fixture.expected["grads"].items())
        self.assertGreater(worst, 1e-9)

    def test_a_parameter_without_weights_is_refused(self):
        fixture = golden("llama/full7")
        del fixture.weights["model.norm.weight"]
        with self.assertRaisesRegex(FormatError, "found no model.norm.weight"):
            cpeq.transformers.load(fixture)

    def test_a_weight_without_parameter_is_refused(self):
        fixture = golden("llama/full7")
        fixture.weights["extra"] = np.zeros(1)
        with self.assertRaisesRegex(FormatError, "found also extra"):
            cpeq.transformers.load(fixture)


class Promotion(unittest.TestCase):
    def test_every_way_of_asking_for_float32(self):
        x = torch.ones(3, dtype=torch.float64)
        with cpeq.Float64(strict=True):
            for result in (x.float(), x.to(torch.float32), x.to(dtype=torch.bfloat16), x.type(torch.float32),
                           x.type("torch.FloatTensor"), x.half(), torch.zeros(2, dtype=torch.float32),
                           torch.tensor(1.5), torch.arange(3) / 2, x.new_ones(2, dtype=torch.float32),
                           torch.softmax(x, 0, dtype=torch.float32),
                           torch.nn.functional.softmax(x, 0, dtype=torch.float32),
                           torch.sum(x, dtype=torch.float32), torch.rand(2), torch.nn.Linear(1, 1).float().weight):
                self.assertIs(result.dtype, torch.float64)
        self.assertIs(torch.get_default_dtype(), torch.float32)

    def test_what_still_comes_out_narrow_is_named(self):
        narrow = torch.ones(3)
        with self.assertRaisesRegex(RuntimeError, "aten.mul.Tensor"):
            with cpeq.Float64(strict=True):
                narrow * 2

    def test_the_backward_of_a_custom_function_is_promoted_too(self):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.float() * x

            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                third = torch.full((), 1.0, dtype=torch.float32) / 3
                return 2 * g.float() * x.to(torch.bfloat16) * third

        x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        with cpeq.Float64(strict=True):
            Square.apply(x).sum().backward()
        self.assertEqual(x.grad[0].item(), 2 / 3)


class Recording(FolderTest):
    def run_ranks(self, fixture, size, **options):
        """Each rank alone: without attention across ranks only shapes, names and declarations can be right."""
        for rank in range(size):
            model = torch.nn.ModuleDict({"module": cpeq.transformers.load(fixture)})
            model.forward = model["module"].forward
            with cpeq.Float64(), cpeq.record(model, fixture=fixture, out=self.folder, rank=rank, size=size,
                                             exchange="ulysses", loss="share", gradients="partial", **options) as r:
                b = r.batch()
                output = model(input_ids=b.input_ids, position_ids=b.position_ids, use_cache=False)
                loss = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), b.shift_labels.flatten(),
                                                         reduction="sum") / b.num_items
                loss.backward()
                r.loss(loss)
                r.logits(output.logits)

    def test_a_whole_step_is_the_truth(self):
        fixture = golden("llama/embeds7")
        model = cpeq.transformers.load(fixture)
        with cpeq.Float64(), cpeq.record(model, fixture=fixture, out=self.path("whole.h5")) as r:
            b = r.batch()
            output = model(inputs_embeds=b.inputs_embeds, position_ids=b.position_ids, labels=b.shift_labels,
                           shift_labels=b.shift_labels, use_cache=False)
            output.loss.backward()
            r.loss(output.loss)
            r.logits(output.logits)
        with h5py.File(self.path("whole.h5")) as file:
            self.assertNotIn("cp_rank", file.attrs)
            self.assertNotIn("islands", file.attrs)
            self.assertEqual(file.attrs["compute_dtype"], "float64")
            self.assertEqual(file.attrs["fixture_id"], fixture.id)
            self.assertEqual(set(file["grads"]), set(fixture.expected["grads"]) - {"model.embed_tokens.weight"})
            self.assertEqual(list(file.attrs["grad_absent"]), ["model.embed_tokens.weight"])
            for name, grad in file["grads"].items():
                self.assertLessEqual(relative(grad[()], fixture.expected["grads"][name]), LIMIT, name)
            np.testing.assert_array_equal(file["ran/position_ids"], np.tile(np.arange(7), (2, 1)))

    def test_one_file_per_rank_under_the_fixtures_names(self):
        fixture = golden("llama/full5")
        self.run_ranks(fixture, 4)
        self.assertEqual(sorted(os.listdir(self.folder)), [f"rank-000{r}.h5" for r in range(4)])
        with h5py.File(self.path("rank-0002.h5")) as file:
            self.assertEqual(list(file["token_index"]), [4, -1])
            self.assertEqual(set(file["grads"]), set(fixture.expected["grads"]))
            self.assertEqual(dict(file.attrs) | {"cp_rank": 2, "cp_size": 4, "loss_kind": "share", "loss_count": 0,
                                                 "gradients": "partial", "layout": "contiguous"}, dict(file.attrs))
            self.assertEqual(file["logits"].shape, (2, 2, 37))
            self.assertEqual(set(file["ran/weights"]), set(fixture.weights))
            self.assertEqual(file["loss"][()], 0.0)

    def test_inputs_of_another_cut_are_not_told(self):
        fixture = golden("llama/full5")
        model = cpeq.transformers.load(fixture)
        with cpeq.record(model, fixture=fixture, out=self.path("rank.h5"), size=2, loss="share",
                         gradients="partial") as r:
            b = r.batch()
            model(input_ids=cpeq.transformers.inputs(fixture)["input_ids"], position_ids=torch.arange(5)[None])
            r.loss(0.0)
        with h5py.File(self.path("rank.h5")) as file:
            self.assertEqual(set(file["ran"]), {"weights"})
        with cpeq.record(model, fixture=fixture, out=self.path("rank.h5"), size=2, loss="share",
                         gradients="partial") as r:
            model(input_ids=b.input_ids, position_ids=b.position_ids[:1])
            r.loss(0.0)
        with h5py.File(self.path("rank.h5")) as file:
            self.assertEqual(set(file["ran"]), {"input_ids", "position_ids", "weights"})
            self.assertEqual(file["ran/position_ids"].shape, (1, 3))

    def test_float32_inside_a_float64_run_is_declared(self):
        fixture = golden("llama/full5")
        model = cpeq.transformers.load(fixture)
        with cpeq.record(model, fixture=fixture, out=self.path("whole.h5")) as r:
            r.loss(model(**cpeq.transformers.inputs(fixture)).loss)
        with h5py.File(self.path("whole.h5")) as file:
            self.assertEqual(file.attrs["islands"], "float32")

    def test_a_shape_that_is_not_this_ranks_is_refused(self):
        fixture = golden("llama/full5")
        model = cpeq.transformers.load(fixture)
        with self.assertRaisesRegex(ValueError, r"/logits: expected .* \[2, 3\].*found shape \[2, 5, 37\]"):
            with cpeq.record(model, fixture=fixture, out=self.folder, size=2, loss="share", gradients="partial") as r:
                r.logits(torch.zeros(2, 5, 37))
        self.assertEqual(os.listdir(self.folder), [])

    def test_bfloat16_results_keep_their_bits(self):
        fixture = golden("llama/full5")
        model = cpeq.transformers.load(fixture, dtype=torch.bfloat16)
        with cpeq.record(model, fixture=fixture, out=self.path("whole.h5")) as r:
            output = model(**cpeq.transformers.inputs(fixture))
            output.loss.backward()
            r.logits(output.logits)
        with h5py.File(self.path("whole.h5")) as file:
            self.assertEqual(file.attrs["compute_dtype"], "bfloat16")
            self.assertEqual(file["logits"].attrs["dtype"], "bfloat16")
            self.assertEqual(file["grads/lm_head.weight"].dtype, np.uint16)

    def test_sharded_gradients_are_gathered(self):
        """Parameters of FSDP2 are DTensors; one rank is enough to see that none is written as such."""
        torch.distributed.init_process_group("gloo", init_method=f"file://{self.path('store')}", rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        fixture = golden("llama/full5")
        model = cpeq.transformers.load(fixture)
        torch.distributed.fsdp.fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
        with cpeq.Float64(strict=True), cpeq.record(model, fixture=fixture, out=self.path("whole.h5")) as r:
            loss = model(**cpeq.transformers.inputs(fixture)).loss
            loss.backward()
            r.loss(loss)
        with h5py.File(self.path("whole.h5")) as file:
            for name, truth in fixture.expected["grads"].items():
                self.assertLessEqual(relative(file["grads"][name][()], truth), LIMIT, name)
            self.assertEqual(set(file["ran/weights"]), set(fixture.weights))

    def test_wrappers_are_stripped_from_names(self):
        for name in ("module.a.b", "_orig_mod.a.b", "module._fsdp_wrapped_module.a._checkpoint_wrapped_module.b",
                     "base_model.model.a.b", "module.base_model.model.a.b"):
            self.assertEqual(stripped(name), "a.b")


if __name__ == "__main__":
    unittest.main()
