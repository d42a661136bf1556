"""Disturbed rounding: what a right run of a model could also have given."""

import torch
from torch.utils._pytree import tree_map

WIDER = {torch.float32: torch.float64, torch.float64: torch.float64}


def disturb(model, seed):
    """Hooks that multiply what every innermost module gives by 1 + d, and its gradient too, |d| no larger than one
    rounding in the dtype of that result; returned to be removed. The same seed gives the same disturbance."""
    generators = {}

    def uniform(tensor):
        device = tensor.device
        if device not in generators:
            generators[device] = torch.Generator(device).manual_seed(seed)
        wide = WIDER.get(tensor.dtype, torch.float32)
        return torch.rand(tensor.shape, generator=generators[device], device=device, dtype=wide) - 0.5

    def moved(item):
        if not isinstance(item, torch.Tensor) or not item.is_floating_point():
            return item
        return (item * (1 + torch.finfo(item.dtype).eps * uniform(item))).to(item.dtype)

    return [module.register_forward_hook(lambda module, args, output: tree_map(moved, output))
            for module in model.modules() if next(module.children(), None) is None]
