"""torch.distributed where Horovod is not wanted: the same functions, under Horovod's names."""

from __future__ import annotations

import os
from typing import Any, Callable


class Ranks:
    """The world of torch.distributed, which the shim's variables lead to."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.group = torch, torch.distributed
        self.column: list[int] = []

    def init(self) -> None:
        """Form the world; NCCL wants each rank's GPU to be chosen before."""
        backend = "gloo"
        if self.torch.cuda.is_available():
            backend = "nccl"
            self.torch.cuda.set_device(self.local_rank() % self.torch.cuda.device_count())
        self.group.init_process_group(backend)
        every: list[Any] = [None] * self.size()
        self.group.all_gather_object(every, self.local_rank())
        self.column = [rank for rank, local in enumerate(every) if local == self.local_rank()]

    def rank(self) -> int:
        """Return this rank's number among all."""
        return int(self.group.get_rank())

    def size(self) -> int:
        """Return the number of ranks."""
        return int(self.group.get_world_size())

    def local_rank(self) -> int:
        """Return this rank's number on its node."""
        return int(os.environ["LOCAL_RANK"])

    def local_size(self) -> int:
        """Return the number of ranks on this node."""
        return int(os.environ["LOCAL_WORLD_SIZE"])

    def cross_rank(self) -> int:
        """Return this rank's number among those with its local rank, one on each node."""
        return self.column.index(self.rank())

    def cross_size(self) -> int:
        """Return the number of ranks with this local rank."""
        return len(self.column)

    def shutdown(self) -> None:
        """Leave the world."""
        self.group.destroy_process_group()


class Distributed:
    """torch.distributed: NCCL where there are GPUs, else Gloo."""

    name = "torch.distributed"

    def __init__(self) -> None:
        import torch
        import torch.distributed

        self.torch, self.world = torch, Ranks(torch)

    def device(self) -> str:
        """Return where tensors lie: a GPU of this rank's, if there is one."""
        if not self.torch.cuda.is_available():
            return "cpu"
        return f"cuda:{self.torch.cuda.current_device()}"

    def gpu(self) -> str:
        """Return what names this rank's GPU among all, "" without one or where torch cannot say."""
        if self.device() == "cpu":
            return ""
        return str(getattr(self.torch.cuda.get_device_properties(self.device()), "uuid", ""))

    def threads(self) -> int:
        """Return how many threads one operation takes."""
        return int(self.torch.get_num_threads())

    def summing(self, count: int, name: str) -> Callable[[], Any]:
        """Return the allreduce of `count` float32 numbers, each rank's rank + 1; it gives the sum.

        It sums in place: so each time begins with a copy.
        """
        data = self.torch.full((count,), float(self.world.rank() + 1), device=self.device())

        def act() -> Any:
            sums = data.clone()
            self.torch.distributed.all_reduce(sums)
            return sums[-1].item()

        return act

    def gather(self, data: bytes) -> bytes:
        """Return every rank's bytes, one after the other."""
        every: list[Any] = [b""] * self.world.size()
        self.torch.distributed.all_gather_object(every, data)
        return b"".join(every)
