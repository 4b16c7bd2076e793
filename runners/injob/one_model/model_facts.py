"""Finds an optimizer's model among a trainer's objects: names, wrappers, what averages.

This is done once for each optimizer, because it goes through all objects of Python.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Sequence
from typing import Any

from .parameters import MOST, checksum

AVERAGERS = "torch.distributed.algorithms.model_averaging.averagers"
AVERAGED = "the weights are averaged now and then (local SGD)"
COPIES = "the optimizer's parameters are no model's (ZeRO, or copies of them)"
IGNORED = "DDP leaves out parameters (_ddp_params_and_buffers_to_ignore)"
INPUTS = 3


class Objects:
    """The modules and optimizers of this process, now."""

    def __init__(self) -> None:
        torch = sys.modules["torch"]
        self.modules: list[Any] = []
        self.optimizers: list[Any] = []
        self.averaged = False
        for item in gc.get_objects():
            kind = type(item)
            if issubclass(kind, torch.nn.Module):
                self.modules.append(item)
            elif issubclass(kind, torch.optim.Optimizer):
                self.optimizers.append(item)
            self.averaged = self.averaged or kind.__module__ == AVERAGERS
        children = {id(child) for module in self.modules for child in module._modules.values()}
        self.roots = [module for module in self.modules if id(module) not in children]

    def names(self) -> dict[int, str]:
        """Return the name of each parameter, as the outermost module has it."""
        names: dict[int, str] = {}
        for root in self.roots:
            for name, parameter in root.named_parameters():
                names.setdefault(id(parameter), name[7:] if name.startswith("module.") else name)
        return names

    def wrappers(self) -> list[Any]:
        parallel = sys.modules.get("torch.nn.parallel.distributed")
        kind = parallel.DistributedDataParallel if parallel else ()
        return [module for module in self.modules if kind and isinstance(module, kind)]


def having(modules: Sequence[Any], parameters: Sequence[Any]) -> list[Any]:
    """Return the modules that have one of the parameters."""
    wanted = set(map(id, parameters))
    return [module for module in modules if wanted & set(map(id, module.parameters()))]


def details(objects: Objects, optimizer: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters' names, the ranks that share weights, and facts for the cause."""
    names, wrappers = objects.names(), objects.wrappers()
    ours = having(wrappers, parameters)
    named = [
        names.get(id(parameter), f"parameter {at}")[:80] for at, parameter in enumerate(parameters)
    ]
    report: dict[str, Any] = {
        "names": named[:: -(-len(named) // MOST)],
        "facts": {
            "wrapped": hasattr(optimizer, "_allreduce_delay"),
            "wrapped_others": any(
                hasattr(found, "_allreduce_delay") for found in objects.optimizers
            ),
            "ddp": len(wrappers),
            "ddp_ours": len(ours),
            "accelerate": "accelerate" in sys.modules,
        },
    }
    if names and parameters and not any(id(parameter) in names for parameter in parameters):
        report["sharded"] = COPIES
    if ranks := getattr(getattr(optimizer, "process_set", None), "ranks", None):
        report["group"] = list(ranks)  # of Horovod's
    for wrapper in ours:
        ranks_of = sys.modules["torch.distributed"].get_process_group_ranks
        report["group"] = list(ranks_of(wrapper.process_group))
        report["facts"].update(of_wrapper(wrapper), ddp_ranks=len(report["group"]))
    ignored = any(getattr(wrapper, "parameters_to_ignore", None) for wrapper in ours)
    reasons = (objects.averaged and AVERAGED, ignored and IGNORED, beside_the_world())
    report["may_differ"] = next(filter(None, reasons), "")
    return report


def of_wrapper(ddp: Any) -> dict[str, bool]:
    """Return how DDP has been used; a forward pass within no_sync() leaves a mark."""
    used = bool(ddp._get_ddp_logging_data().get("iteration"))
    passed_over = not used and not ddp.require_forward_param_sync
    return {"ddp_used": used, "no_sync": passed_over or not ddp.require_backward_grad_sync}


def beside_the_world() -> str:
    """Return why the ranks' weights may differ: there are groups of some ranks."""
    core: Any = sys.modules.get("torch.distributed.distributed_c10d")
    groups = getattr(getattr(core, "_world", None), "pg_group_ranks", {}) if core else {}
    sizes = {len(ranks) for ranks in groups.values()}
    between = sorted(size for size in sizes if 1 < size < max(sizes, default=1))
    return f"there are process groups of {between[0]} of {max(sizes)} ranks" if between else ""


def note_inputs(objects: Objects, parameters: Sequence[Any], inputs: list[int]) -> None:
    """Add checksums of the inputs of the next forward passes, to recognize copies.

    Compiled functions get no hook, which would make PyTorch compile them again.
    """
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    compiled = bool(dynamo and dynamo.counters["frames"])
    roots = () if compiled else having(objects.roots, parameters)[-1:]
    for root in roots:
        with contextlib.suppress(Exception):  # some modules take no hooks
            _note_inputs_of(root, inputs)


def _note_inputs_of(root: Any, inputs: list[int]) -> None:
    torch: Any = sys.modules["torch"]

    def note(module: Any, args: Any, kwargs: Any) -> None:
        if len(inputs) >= INPUTS:
            handle.remove()
        elif module.training and torch.is_grad_enabled():
            inputs.append(checksum(torch, _tensors((args, kwargs))))

    handle = root.register_forward_pre_hook(note, with_kwargs=True)


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in nested containers."""
    if hasattr(value, "keys") and hasattr(value, "values"):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    torch: Any = sys.modules["torch"]
    return [value] if type(value) is torch.Tensor and value.numel() else []
