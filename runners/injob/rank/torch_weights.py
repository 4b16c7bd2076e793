"""What a process of PyTorch knows of its parameters: checksums, names, who has the same ones."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

MOST = 1024  # parameters that have a checksum of their own; else several share one
FEW, MANY = 64, 1024  # values of a parameter that a checksum is made of
VALUES = 1000  # that a report has
AVERAGERS = "torch.distributed.algorithms.model_averaging.averagers"
AVERAGED = "the weights are averaged now and then (local SGD)"


def captures(torch: Any) -> bool:
    """Whether a CUDA graph is being recorded, in which nothing may be read."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def pieces(torch: Any, parameters: Iterable[Any], count: int) -> list[bytes]:
    """Return up to `count` values of each parameter, spread over it, as bytes."""
    found: dict[tuple[Any, Any], list[tuple[int, Any]]] = {}
    for place, one in enumerate(parameters):
        piece = spread(one.detach(), count)
        found.setdefault((one.device, one.dtype), []).append((place, piece))
    data: dict[int, bytes] = {}
    for (_, _), group in found.items():
        joined = torch.cat([piece for _, piece in group]).cpu()  # one transfer for each device
        width, start = joined.element_size(), joined.data_ptr()
        for place, piece in group:
            length = piece.numel() * width
            data[place] = ctypes.string_at(start, length)
            start += length
    return [data[place] for place in sorted(data)]


def spread(tensor: Any, count: int) -> Any:
    number = tensor.numel()
    step = max(1, number // count)
    extent = 1 + sum((size - 1) * by for size, by in zip(tensor.shape, tensor.stride()))
    if number == extent:  # it fills its memory, in whatever order
        return tensor.as_strided((min(number, count),), (step,), tensor.storage_offset())
    return tensor.reshape(-1)[::step][:count]


def checked(torch: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return a checksum of each parameter, and some of its values; of many, for groups of them."""
    data = pieces(torch, parameters, MANY)
    width = -(-len(data) // MOST)
    sums = [zlib.crc32(b"".join(data[at : at + width])) for at in range(0, len(data), width)]
    each = max(1, VALUES // len(sums))
    some = [spread(one.detach(), each).double().tolist() for one in parameters[::width]]
    return {"checksums": sums, "values": some}


def describe(torch: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return what there is to know of the parameters before they are read."""
    shapes = [(tuple(one.shape), str(one.dtype)) for one in parameters]
    return {
        "sharded": sharded(parameters),
        "shapes": zlib.crc32(repr(shapes).encode()),
        "processor": processor(torch, parameters),
    }


def sharded(parameters: Sequence[Any]) -> str:
    """Return why a rank has only a part of the parameters, "" if it has all."""
    for one in parameters:
        if type(one).__name__ == "DTensor" or hasattr(one, "to_local"):
            return "the parameters are sharded (DTensor)"
        if getattr(one, "_fsdp_flattened", False):
            return "the parameters are sharded (FSDP)"
        if one.layout != sys.modules["torch"].strided or one.device.type == "meta":
            return f"a parameter is {one.layout}, on {one.device.type}"
    return ""


def processor(torch: Any, parameters: Sequence[Any]) -> str:
    device = parameters[0].device if parameters else torch.device("cpu")
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return cpu_model()


def cpu_model() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return ""


def details(optimizer: Any, parameters: Sequence[Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters' names, who is to have the same weights, and what tells a cause.

    Once for each optimizer: it looks at all objects of Python.
    """
    torch = sys.modules["torch"]
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    wrapper = parallel.DistributedDataParallel if parallel else ()
    modules, optimizers, averaged = [], [], False
    for one in gc.get_objects():
        kind = type(one)
        if issubclass(kind, torch.nn.Module):
            modules.append(one)
        elif issubclass(kind, torch.optim.Optimizer):
            optimizers.append(one)
        averaged = averaged or kind.__module__ == AVERAGERS
    names, own = names_in(modules), set(map(id, parameters))
    wrappers = [one for one in modules if wrapper and isinstance(one, wrapper)]
    ours = [one for one in wrappers if own & set(map(id, one.parameters()))]
    named = [names.get(id(one), f"parameter {at}")[:80] for at, one in enumerate(parameters)]
    found: dict[str, Any] = {
        "names": named[:: -(-len(named) // MOST)],
        "facts": {
            "wrapped": hasattr(optimizer, "_allreduce_delay"),
            "wrapped_others": any(hasattr(one, "_allreduce_delay") for one in optimizers),
            "ddp": len(wrappers),
            "ddp_ours": len(ours),
            "accelerate": "accelerate" in sys.modules,
        },
    }
    if names and parameters and not any(id(one) in names for one in parameters):
        found["sharded"] = "the optimizer's parameters are no model's (ZeRO, or copies of them)"
    if ranks := getattr(getattr(optimizer, "process_set", None), "ranks", None):
        found["group"] = list(ranks)  # of Horovod's
    for one in ours:
        found["group"] = group_of(one)
        found["facts"]["ddp_ranks"] = len(found["group"])
        found["facts"]["ddp_used"] = bool(one._get_ddp_logging_data().get("iteration"))
        found["facts"]["no_sync"] = not one.require_backward_grad_sync
    found["may_differ"] = AVERAGED if averaged else beside_the_world()
    return found


def names_in(modules: Sequence[Any]) -> dict[int, str]:
    """Return the name of each parameter, as the outermost module has it."""
    children = {id(child) for one in modules for child in one._modules.values()}
    names: dict[int, str] = {}
    for root in modules:
        if id(root) not in children:
            for name, one in root.named_parameters():
                names.setdefault(id(one), name[7:] if name.startswith("module.") else name)
    return names


def group_of(wrapper: Any) -> list[int]:
    """Return the ranks with which DDP averages."""
    distributed = sys.modules["torch.distributed"]
    return list(distributed.get_process_group_ranks(wrapper.process_group))


def beside_the_world() -> str:
    """Return why weights of ranks may differ: groups of a part of them, each with its layers."""
    core: Any = sys.modules.get("torch.distributed.distributed_c10d")
    groups = getattr(getattr(core, "_world", None), "pg_group_ranks", {}) if core else {}
    sizes = {len(one) for one in groups.values()}
    between = sorted(size for size in sizes if 1 < size < max(sizes, default=1))
    return f"there are process groups of {between[0]} of {max(sizes)} ranks" if between else ""
