"""Registers: what crosses the layers of a model, and its gradient, seen by hooks of modules.

embed is what the first layer is given, layer.<n>.out what a layer gives, final what the last norm gives.
"""

import torch

LAYERS = ("layers", "h", "blocks", "block")
FINAL = ("norm", "ln_f", "norm_f", "final_layernorm", "final_layer_norm", "final_norm")


def watch(model, modules, keep):
    """Hooks that call keep(register, tensor) once for every register, and keep("grad." + register, gradient) in the
    backward; returned to be removed. modules: register -> module whose output it is; None: they are looked for."""
    hooks, seen = [], set()

    def meet(register, value):
        tensor = value[0] if isinstance(value, (tuple, list)) else value
        if register in seen or not isinstance(tensor, torch.Tensor):  # seen: a checkpoint runs it once more
            return
        seen.add(register)
        keep(register, tensor)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: keep(f"grad.{register}", gradient))

    if modules is None:
        layers, final = _found(model)
        hooks.append(layers[0].register_forward_pre_hook(
            lambda module, args, kwargs: meet("embed", args[0] if args else next(iter(kwargs.values()))),
            with_kwargs=True))
        modules = {**{f"layer.{n}.out": layer for n, layer in enumerate(layers)}, "final": final}
    for register, module in modules.items():
        hooks.append(module.register_forward_hook(
            lambda module, args, output, register=register: meet(register, output)))
    return hooks


def _found(model):
    """The layers, and the norm beside them."""
    lists = [(name, module) for name, module in model.named_modules()
             if isinstance(module, torch.nn.ModuleList) and name.split(".")[-1] in LAYERS]
    if lists:
        name, layers = min(lists, key=lambda pair: len(pair[0].split(".")))
        parent = model.get_submodule(name.rpartition(".")[0])
        final = next((getattr(parent, norm) for norm in FINAL if hasattr(parent, norm)), None)
        if final is not None:
            return list(layers), final
    raise ValueError(f"model: expected a ModuleList called one of {', '.join(LAYERS)} and beside it a norm called one of"
                     f" {', '.join(FINAL)}, found none; give trace={{register: module}}")
