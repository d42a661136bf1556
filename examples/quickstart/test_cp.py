"""torchrun --standalone --nproc-per-node 2 --local-ranks-filter 0 -m pytest -q test_cp.py"""

import cpeq
import pytest
import torch
import torch.distributed as dist

from steps import VOCAB, reference_step, step

IDS = torch.randint(0, VOCAB, (2, 61), generator=torch.Generator().manual_seed(1))
BATCH = {"input_ids": IDS, "labels": IDS}


@pytest.fixture(scope="module", autouse=True)
def ranks():
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


def test_the_step_is_the_unsharded_one_in_float64():
    cpeq.assert_cp_equal(step, reference_step, batch=BATCH)


def test_the_step_is_the_unsharded_one_in_bfloat16():
    cpeq.assert_cp_equal(step, reference_step, batch=BATCH, dtype=torch.bfloat16)


def test_nothing_leaks():
    cpeq.probe(step, batch=BATCH, dtype=torch.bfloat16).check()
