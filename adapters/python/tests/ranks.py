"""What two ranks run in test_ranks.py: the context-parallel llama of examples/gate under every wrapper, in one spawn."""

import importlib.util
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn import functional

import cpeq

SIZE = 2
EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
EXAMPLE = EXAMPLES / "gate" / "step.py"
sys.path.insert(0, str(EXAMPLES / "quickstart"))

import steps


def example():
    spec = importlib.util.spec_from_file_location("example_step", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STEP = example()


def build(fixture, dtype=torch.float64):
    model = STEP.Llama(fixture.config).to(dtype)
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in fixture.weights.items()})
    return model


def run(r, model):
    """The step itself, as in the example."""
    b = r.batch()
    tokens = STEP.Tokens(b.position_ids, b.token_index, b.document_ids)
    logits = model(b.input_ids, b.inputs_embeds, b.position_ids, tokens)
    losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
    loss = losses.sum() / b.num_items
    loss.backward()
    r.loss(loss)
    r.token_loss(losses)
    r.logits(logits)


def plain(fixture, out, mesh):
    with cpeq.record(fixture=fixture, out=out, group=mesh, layout="zigzag", loss="share", gradients="partial",
                     trace=True) as r:
        run(r, r.watch(build(fixture)))


def ddp(fixture, out, mesh):
    """DDP's mean over two ranks is half of the gradient."""
    model = torch.nn.parallel.DistributedDataParallel(build(fixture))
    with cpeq.record(model, fixture=fixture, out=out, group=mesh.get_group(), loss="share", grad_scale=1 / SIZE) as r:
        run(r, model)


def ddp_before(fixture, out, mesh):
    model = torch.nn.parallel.DistributedDataParallel(build(fixture))
    with cpeq.record(model, fixture=fixture, out=out, group=mesh, loss="share", gradients="partial",
                     before_reduction=True) as r:
        run(r, model)


def fsdp(fixture, out, mesh):
    model = torch.distributed.fsdp.fully_shard(build(fixture), mesh=mesh)
    with cpeq.record(model, fixture=fixture, out=out, group=mesh, loss="share", grad_scale=1 / SIZE) as r:
        run(r, model)


def hsdp(fixture, out, mesh):
    both = torch.distributed.init_device_mesh("cpu", (SIZE, 1), mesh_dim_names=("copies", "parts"))
    model = torch.distributed.fsdp.fully_shard(build(fixture), mesh=both)
    with cpeq.record(model, fixture=fixture, out=out, group=mesh, loss="share", grad_scale=1 / SIZE) as r:
        run(r, model)


def elsewhere(fixture, out, mesh):
    """Gradients in a place of their own, reduced, as an engine holds them; float32; compiled."""
    model = build(fixture, torch.float32)
    compiled, kept = torch.compile(model, backend="eager"), {}

    def getter(name, parameter):
        if name not in kept:
            kept[name] = parameter.grad.clone()
            dist.all_reduce(kept[name])
        return kept[name]

    with torch.compiler.set_stance("force_eager"), cpeq.record(compiled, fixture=fixture, out=out, group=mesh, loss="share",
                                                               grad_getter=getter) as r:
        run(r, compiled)  # what matters is the wrapper; tracing takes seconds


CASES = (plain, ddp, ddp_before, fsdp, hsdp, elsewhere)


def refused(function):
    """What it says when it raises."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def refusals(fixture, folder, mesh):
    two = torch.distributed.init_device_mesh("cpu", (SIZE, 1), mesh_dim_names=("dp", "cp"))
    sharded = torch.distributed.fsdp.fully_shard(build(fixture), mesh=mesh)
    sharded.lm_head.weight.grad = torch.zeros_like(sharded.lm_head.weight)

    def recorded(model, **options):
        with cpeq.record(model, fixture=fixture, out=f"{folder}/none", loss="share", **options):
            pass

    return {"mesh": refused(lambda: recorded(sharded, group=two)),
            "partial slices": refused(lambda: recorded(sharded, group=mesh, gradients="partial")),
            "hooks of slices": refused(lambda: recorded(sharded, group=mesh, gradients="partial", before_reduction=True))}


# ---- a model and a batch of one's own --------------------------------------------------------------------------------

IDS = torch.arange(26).reshape(2, 13) * 7 % 31 + 4
OWN = {"input_ids": IDS, "labels": IDS,
       "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7], list(range(13))])}


def wrong_step(r):
    """The second rank's loss is left out of the gradients."""
    model, b = r.watch(steps.parallelize(steps.build(r))), r.batch()
    logits = model(b.input_ids, b.position_ids)
    losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
    loss = losses.sum() / b.num_items
    (loss * (dist.get_rank() == 0)).backward()
    r.loss(loss)
    r.token_loss(losses)
    r.logits(logits)


def other_step(r):
    model = steps.parallelize(steps.build(r))
    with torch.no_grad():
        model.norm.weight[0] += 1
    steps.train(r, r.watch(model))


def packed_step(r):
    run(r, r.watch(build(cpeq.Fixture(os.environ["CPEQ_TEST_FIXTURE"]))))


def no_borders(r):
    """Documents are not told from each other."""
    model, b = r.watch(build(cpeq.Fixture(os.environ["CPEQ_TEST_FIXTURE"]))), r.batch()
    tokens = STEP.Tokens(b.position_ids, b.token_index, torch.where(b.document_ids >= 0, 0, -1))
    logits = model(b.input_ids, None, b.position_ids, tokens)
    losses = functional.cross_entropy(logits.transpose(1, 2), b.shift_labels, reduction="none")
    (losses.sum() / b.num_items).backward()
    r.logits(logits)


def equalities(folder, path, mesh):
    os.environ["CPEQ_TEST_FIXTURE"] = path
    bfloat16 = {"batch": {name: OWN[name] for name in ("input_ids", "labels")}, "dtype": torch.bfloat16}
    kept = pathlib.Path(folder, "own", "reference")
    return {
        "own bfloat16": refused(
            lambda: cpeq.assert_cp_equal(steps.step, steps.reference_step, out=kept.parent, **bfloat16)),
        "own wrong": refused(lambda: cpeq.assert_cp_equal(wrong_step, kept, group=mesh, **bfloat16)),
        "other weights": refused(lambda: cpeq.assert_cp_equal(other_step, kept, **bfloat16)),
        "probes": str(cpeq.probe(packed_step, batch=OWN, layout="zigzag")),
        "probes of wrong": str(cpeq.probe(no_borders, batch=OWN, probes=("documents", "packing"))),
    }


def main(rank, folder, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=SIZE)
    mesh = dist.init_device_mesh("cpu", (SIZE,), mesh_dim_names=("cp",))
    fixture = cpeq.Fixture(path)
    for case in CASES:
        case(fixture, os.path.join(folder, case.__name__), mesh)
    said = refusals(fixture, folder, mesh)
    said["same"] = refused(lambda: cpeq.assert_same(fixture, f"{folder}/plain"))
    said["different"] = refused(
        lambda: cpeq.assert_same(fixture, f"{folder}/plain", group=mesh, rtol=0, atol=0))
    said["absent"] = refused(lambda: cpeq.assert_same(fixture, f"{folder}/absent"))
    said |= equalities(folder, path, mesh)
    with open(os.path.join(folder, f"said-{rank}.json"), "w") as file:
        json.dump(said, file)
    dist.destroy_process_group()
