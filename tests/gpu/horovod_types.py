"""Horovod's data types on one GPU or more: python3 horovod_types.py, or by a launcher.

Prints what is wrong and exits with 1, or `data types: all right`; then the time of synchronous
allreduces, one line each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import horovod.torch as hvd
import torch

BFLOAT16 = torch.bfloat16
SMALL = (torch.uint8, torch.int8)
wrong: list[str] = []


def same(value: torch.Tensor, expected: torch.Tensor) -> bool:
    """Compare values; any NaN equals any other."""
    equal = (value == expected) | (value.isnan() & expected.isnan())
    return value.dtype == expected.dtype and value.is_cuda and bool(equal.all())


def check(name: str, expected: torch.Tensor, function: Callable[..., Any], *words: Any) -> None:
    """Note a function of Horovod that fails or returns something else."""
    try:
        value = function(*words, name=name)
    except (ValueError, RuntimeError, hvd.HorovodInternalError) as error:
        wrong.append(f"{name}: {type(error).__name__}: {error}")
    else:
        if not same(value, expected):
            wrong.append(f"{name}: another result")


def reductions(kind: torch.dtype) -> None:
    """Sum, average, minimum, maximum and product of small whole numbers are exact."""
    size = hvd.size()
    ones = (torch.arange(99 * size, device="cuda") % 3 + 1).to(kind)
    known = {"Sum": ones * size, "Average": ones, "Min": ones, "Max": ones, "Product": ones**size}
    for op, expected in known.items():
        check(f"{op} of {kind}", expected, partial(hvd.allreduce, op=getattr(hvd, op)), ones)
    own = known["Sum"][99 * hvd.rank() : 99 * (hvd.rank() + 1)]
    check(f"reducescatter of {kind}", own, partial(hvd.reducescatter, op=hvd.Sum), ones)


def moves(kind: torch.dtype) -> None:
    """Allgather, broadcast and alltoall keep every value."""
    size = hvd.size()
    values = torch.arange(64 * size, device="cuda").remainder(100).to(kind)
    check(f"allgather of {kind}", values.repeat(size), hvd.allgather, values)
    check(f"broadcast of {kind}", values, hvd.broadcast, values, 0)
    own = values.reshape(size, 64)[hvd.rank()].repeat(size)
    check(f"alltoall of {kind}", own, hvd.alltoall, values)


def scales() -> None:
    """The kernels that scale round as PyTorch does: alone, unaligned, and several in one buffer."""
    every = torch.arange(-32768, 32768, dtype=torch.int16).view(BFLOAT16).cuda()
    factor = 1 + 2**-8  # leaves ties to round
    scaled = (every.float() * factor).to(BFLOAT16)
    mine = every if hvd.rank() == 0 else torch.zeros_like(every)
    options = {"prescale_factor": factor, "op": hvd.Sum}
    check("scale", scaled, partial(hvd.allreduce, **options), mine)
    check("scale of unaligned data", scaled[1:], partial(hvd.allreduce, **options), mine[1:])

    def together(name: str) -> torch.Tensor:
        parts = [mine[first:] for first in range(4)]
        return torch.cat(hvd.grouped_allreduce(parts, name=name, **options))

    check("scale of several", torch.cat([scaled[first:] for first in range(4)]), together)


def compression() -> None:
    """Gradients in float32 are exchanged in bfloat16."""
    values = torch.linspace(-3, 3, 1001, device="cuda")
    packed = partial(hvd.allreduce, compression=hvd.Compression.bf16, op=hvd.Average)
    check("Compression.bf16", values.to(BFLOAT16).float(), packed, values)


def training() -> None:
    """A model in bfloat16 takes steps."""
    model = torch.nn.Linear(64, 64, device="cuda", dtype=BFLOAT16)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    before = model.weight.detach().clone()

    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(8, 64, device="cuda", dtype=BFLOAT16)).square().sum().backward()
        optimizer.step()
    if not bool(model.weight.isfinite().all()) or torch.equal(model.weight, before):
        wrong.append("training: the weights are as before, or not finite")


def times() -> None:
    """Print how long one synchronous allreduce takes."""
    for kind in (torch.float32, BFLOAT16):
        for kilobytes in (1, 64, 1024, 65536):
            values = torch.ones(kilobytes * 1024 // kind.itemsize, device="cuda", dtype=kind)
            name = f"{kind} {kilobytes}"
            for count in (5, 50):
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(count):
                    hvd.allreduce_(values, op=hvd.Average, name=name)
                torch.cuda.synchronize()
                each = (time.perf_counter() - began) / count
            print(f"allreduce of {kilobytes} KB in {kind}: {each * 1e3:.3f} ms")


hvd.init()
torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
for kind in (BFLOAT16, *SMALL):
    reductions(kind)
    moves(kind)
scales()
compression()
training()
if hvd.rank() == 0:
    print(*(f"wrong: {text}" for text in wrong), sep="\n")
    print("data types:", f"{len(wrong)} wrong" if wrong else "all right")
    print("NCCL, MPI, Gloo built:", bool(hvd.nccl_built()), hvd.mpi_built(), hvd.gloo_built())
if not wrong:
    times()
hvd.shutdown()
sys.exit(bool(wrong))
