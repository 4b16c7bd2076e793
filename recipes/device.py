"""What a rank's device can do, and what that makes of the options; what a run asks of it.

Importing this file needs the standard library only.
"""

from __future__ import annotations

import re
import resource
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.distributed import Ranks, UserError

AMPERE = (8, 0)  # the first GPUs with bfloat16 units


@dataclass(frozen=True)
class Device:
    """A CPU, or a GPU of a compute capability.

    `code` is what the framework is compiled for, such as sm_80 and compute_90, where it says that;
    of `compilers` --compile needs one.
    """

    capability: tuple[int, int] | None = None  # a CPU
    name: str = "CPU"
    code: Sequence[str] = ()
    compilers: Sequence[str] = ()

    @property
    def kind(self) -> str:
        return "CPU" if self.capability is None else "GPU"

    @property
    def has_bfloat16(self) -> bool:
        if self.capability is None:
            return "avx512_bf16" in Path("/proc/cpuinfo").read_text()
        return self.capability >= AMPERE


def settle(args: Namespace, ranks: Ranks, device: Device) -> None:
    """Set `args.precision` where it is not given. Raises `UserError` for what cannot work."""
    if device.capability and device.code and not _runs(device.capability, device.code):
        number = ".".join(map(str, device.capability))
        raise UserError(
            f"{device.name} has compute capability {number}, and the framework in this image has "
            f"code for {', '.join(device.code)}. Take other GPUs, or an image with code for this "
            "one: runner build gpu has it from 7.0 on, gpu13 from 7.5 on"
        )
    compilers = device.compilers if getattr(args, "compile", False) else ()
    if compilers and not any(map(shutil.which, compilers)):
        raise UserError(f"--compile needs a compiler, and there is none here: {compilers[0]}")
    native = device.has_bfloat16
    on_gpu = device.kind == "GPU"
    args.precision = args.precision or ("bf16" if native and on_gpu else "fp32")
    if args.precision == "bf16" and not native and ranks.rank == 0:
        print(f"note: this {device.kind} has no bfloat16 units: --precision bf16 is slow here")


def _runs(capability: tuple[int, int], code: Sequence[str]) -> bool:
    """Whether machine code of the same major number, or older PTX, is there."""
    for kind, major, minor in re.findall(r"(sm|compute)_(\d+)(\d)", " ".join(code)):
        version = int(major), int(minor)
        if version <= capability and (kind == "compute" or version[0] == capability[0]):
            return True
    return False


def shared(ranks: Ranks, gpus: Sequence[tuple[str, str]]) -> UserError | None:
    """Return the error of two ranks on one GPU, which NCCL calls "invalid usage".

    `gpus` are all ranks' hosts and GPUs.
    """
    mine = [str(rank) for rank, gpu in enumerate(gpus) if gpu == gpus[ranks.rank]]
    if len(mine) == 1:
        return None
    return UserError(f"ranks {', '.join(mine)} share a GPU: start as many ranks as GPUs")


def own_memory() -> int:
    """Return the most memory, in bytes, that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def difference(first: float, second: float) -> float:
    return second - first


@dataclass(frozen=True)
class Framework:
    """What a run asks of PyTorch or TensorFlow on this rank's device; the defaults are a CPU's.

    `mark` notes the time on the device, and `elapsed` has the seconds between two marks.
    `profiler` takes a folder and the first and last step, and returns what has `step` and `stop`.
    """

    device: str
    versions: dict[str, str]
    mark: Callable[[], Any] = time.perf_counter
    elapsed: Callable[[Any, Any], float] = difference
    peak_memory: Callable[[], int] = own_memory
    gpu_name: str = ""
    profiler: Callable[[str, int, int], Any] | None = None
