"""Reads PyTorch's parameters for the exchange check: checksums, some values, their shapes."""

from __future__ import annotations

import ctypes
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from . import weights

MOST = 1024  # parameters that have a checksum of their own; else several share one


def in_groups(groups: Iterable[Any]) -> list[Any]:
    """Return the parameters of an optimizer's groups, each once."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    return list({id(parameter): parameter for parameter in parameters}.values())


def version(groups: Sequence[Any]) -> int:
    """Return a number that changes as the first and the last of the parameters do."""
    first, last = groups[0]["params"], groups[-1]["params"]
    before: int = first[0]._version if first else 0
    return before + last[-1]._version if last else before


def captures(torch: Any) -> bool:
    """Whether a CUDA graph is being recorded, in which nothing may be read."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def checksum(torch: Any, tensors: Iterable[Any]) -> int:
    return zlib.crc32(b"".join(pieces(torch, tensors, weights.FEW)))


def pieces(torch: Any, parameters: Iterable[Any], count: int) -> list[bytes]:
    """Return up to `count` values of each parameter, spread over it, as bytes."""
    groups: dict[tuple[Any, Any], list[tuple[int, Any]]] = {}
    for place, parameter in enumerate(parameters):
        piece = spread(parameter.detach(), count)
        groups.setdefault((parameter.device, parameter.dtype), []).append((place, piece))
    data: dict[int, bytes] = {}
    for group in groups.values():
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
    """Return a checksum and some values of each parameter; of many parameters, one for several."""
    data = pieces(torch, parameters, weights.MANY)
    width = -(-len(data) // MOST)
    sums = [zlib.crc32(b"".join(data[at : at + width])) for at in range(0, len(data), width)]
    count = max(1, weights.VALUES // len(sums))
    some = [
        spread(parameter.detach(), count).double().tolist() for parameter in parameters[::width]
    ]
    return {"checksums": sums, "values": some}


def describe(torch: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return whether the parameters are sharded, their shapes, and the processor."""
    shapes = [(tuple(parameter.shape), str(parameter.dtype)) for parameter in parameters]
    on_gpu = parameters and parameters[0].device.type == "cuda"
    processor = torch.cuda.get_device_name(parameters[0].device) if on_gpu else weights.cpu_model()
    return {
        "sharded": sharded(parameters),
        "shapes": zlib.crc32(repr(shapes).encode()),
        "processor": processor,
    }


def sharded(parameters: Sequence[Any]) -> str:
    """Return why a rank has only a part of the parameters, "" if it has all."""
    for parameter in parameters:
        if type(parameter).__name__ == "DTensor" or hasattr(parameter, "to_local"):
            return "the parameters are sharded (DTensor)"
        if getattr(parameter, "_fsdp_flattened", False):
            return "the parameters are sharded (FSDP)"
        if parameter.layout != sys.modules["torch"].strided or parameter.device.type == "meta":
            return f"a parameter is {parameter.layout}, on {parameter.device.type}"
    return ""
