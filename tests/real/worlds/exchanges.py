"""Horovod exchanges, asked for in an order of each rank's own, and ranks that join: all right."""

from __future__ import annotations

import random
import time

import horovod.torch as hvd
import torch

ROUNDS, KINDS = 4, (torch.float32, torch.float64, torch.int64, torch.float16)
hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
# The set leaves out the first rank of the first node only. Over Gloo the release waits in it.
some = hvd.add_process_set(list(range(1, size)))
common, own = random.Random(5), random.Random(100 + rank)


def ramp(count: int, kind: torch.dtype) -> torch.Tensor:
    return torch.arange(count).remainder(7).to(kind)


def allreduces(number: int) -> None:
    """Sum some tensors, asked for in an order of this rank's own."""
    wanted = [(common.randint(1, 5000), common.choice(KINDS)) for _ in range(10)]
    handles = {}
    for which in own.sample(range(10), 10):
        name = f"{number % 3}.{which}.{wanted[which]}"
        tensor = ramp(*wanted[which]) * (rank + 1)
        handles[which] = hvd.allreduce_async(tensor, op=hvd.Sum, name=name)
        time.sleep(own.choice((0, 0, 0.002)))
    for which, handle in handles.items():
        right = ramp(*wanted[which]) * (size * (size + 1) // 2)
        assert torch.equal(hvd.synchronize(handle), right), wanted[which]


def others(number: int) -> None:
    rows = hvd.allgather(torch.full((rank + 1, 2), rank), name=f"gather {number % 3}")
    assert rows[:, 0].tolist() == [each for each in range(size) for _ in range(each + 1)]
    assert hvd.broadcast_object(rank, root_rank=number % size) == number % size
    ones = torch.ones(size, dtype=torch.int32)
    got, _ = hvd.alltoall(torch.arange(size) + 10 * rank, splits=ones, name=f"all {number % 3}")
    assert got.tolist() == [10 * each + rank for each in range(size)]
    if some.included():
        total = hvd.allreduce(torch.ones(9), op=hvd.Sum, name="some", process_set=some)
        assert total.tolist() == [size - 1] * 9


for number in range(ROUNDS):
    allreduces(number)
    others(number)
    if number % 2:  # the rank with the number 0 has no batch left, the last has most
        for batch in range(rank):
            left = hvd.allreduce(torch.ones(3), op=hvd.Sum, name="joined")
            assert left.tolist() == [size - 1 - batch] * 3, left
        assert hvd.join() == size - 1
print("exchanged", flush=True)
