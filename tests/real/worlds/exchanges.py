"""Horovod exchanges, asked for in an order of each rank's own, and ranks that join: all right."""

from __future__ import annotations

import random
import time

import horovod.torch as hvd
import torch

ROUNDS, KINDS = 4, (torch.float32, torch.float64, torch.int64, torch.float16)
LITTLE = 64 * 1024 // 4  # floats that Gloo exchanges by doubling; more go around a ring
hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
# The set leaves out the first rank of the first node only. Over Gloo the release waits in it.
some = hvd.add_process_set(list(range(1, size)))
common, own = random.Random(5), random.Random(100 + rank)


def ramp(count: int, kind: torch.dtype) -> torch.Tensor:
    return torch.arange(count).remainder(7).to(kind)


def allreduces(number: int) -> None:
    """Sum some tensors, asked for in an order of this rank's own."""
    wanted = [(common.randint(1, 5000), common.choice(KINDS)) for _ in range(8)]
    wanted += [(LITTLE, torch.float32), (LITTLE + 1, torch.float32)]
    handles = {}
    for which in own.sample(range(10), 10):
        name = f"{number % 3}.{which}.{wanted[which]}"
        tensor = ramp(*wanted[which]) * (rank + 1)
        handles[which] = hvd.allreduce_async(tensor, op=hvd.Sum, name=name)
        time.sleep(own.choice((0, 0, 0.002)))
    for which, handle in handles.items():
        right = ramp(*wanted[which]) * (size * (size + 1) // 2)
        assert torch.equal(hvd.synchronize(handle), right), wanted[which]


def alone(number: int) -> None:
    """Reduce one tensor at a time, also in place: averages, and minima with equal bits."""
    for count in (0, 5, LITTLE, LITTLE + 1):
        mine = torch.full((count,), float(rank))
        name = f"alone {count}"
        hvd.allreduce_(mine, op=hvd.Average, name=name)
        assert torch.allclose(mine, torch.full((count,), (size - 1) / 2)), mine
        if hvd.gloo_enabled():
            zeros = torch.full((count,), -0.0 if (rank + number) % 2 else 0.0)
            least = hvd.allreduce(zeros, op=hvd.Min, name=f"{name} min")
            bits = hvd.allgather(least.view(torch.int32)[None], name=f"{name} bits")
            assert bool((bits == bits[0]).all())
    pair = [torch.full((3,), float(rank)), torch.full((LITTLE,), float(rank))]
    for value in hvd.grouped_allreduce(pair, op=hvd.Average, name="averages"):
        assert torch.allclose(value, torch.full_like(value, (size - 1) / 2))


def others(number: int) -> None:
    rows = hvd.allgather(torch.full((rank + 1, 2), rank), name=f"gather {number % 3}")
    assert rows[:, 0].tolist() == [source for source in range(size) for _ in range(source + 1)]
    assert hvd.broadcast_object(rank, root_rank=number % size) == number % size
    ones = torch.ones(size, dtype=torch.int32)
    got, _ = hvd.alltoall(torch.arange(size) + 10 * rank, splits=ones, name=f"all {number % 3}")
    assert got.tolist() == [10 * source + rank for source in range(size)]
    if some.included():
        total = hvd.allreduce(torch.ones(9), op=hvd.Sum, name="some", process_set=some)
        assert total.tolist() == [size - 1] * 9


for number in range(ROUNDS):
    allreduces(number)
    alone(number)
    others(number)
    if number % 2:  # the rank with the number 0 has no batch left, the last has most
        for batch in range(rank):
            left = hvd.allreduce(torch.ones(3), op=hvd.Sum, name="joined")
            assert left.tolist() == [size - 1 - batch] * 3, left
        assert hvd.join() == size - 1
print("exchanged", flush=True)
