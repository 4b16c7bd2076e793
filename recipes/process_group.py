"""torch.distributed's world, under the names of Horovod's functions.

    world = process_group.join()

The ranks meet as in every DDP script: by RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT,
which `runner launch` and torchrun set. Without them there is one rank.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed

# Set by mpirun, MPICH's mpiexec and horovodrun.
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")


def join() -> World:
    """Form the group of all ranks: Gloo for tensors of CPUs, and NCCL with GPUs. Collective."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if "RANK" in os.environ:
        distributed.init_process_group(backend)
    elif any(os.environ.get(name, "1") != "1" for name in SIZES):
        sys.exit("error: RANK is not set: start the ranks by runner launch or torchrun")
    else:
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    return World()


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


class World:
    """The process group under the names of Horovod's functions, for what trainers share."""

    Average = "average"  # the only kind of reduction

    def __init__(self) -> None:
        self.rank = _always(distributed.get_rank())
        self.size = _always(distributed.get_world_size())
        self.local_rank = _always(int(os.environ.get("LOCAL_RANK", "0")))
        self.local_size = _always(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        self.cross_rank = _always(int(os.environ.get("GROUP_RANK", "0")))
        # No Horovod, and so no controller of its.
        self.mpi_enabled = self.gloo_enabled = _always(False)

    def allreduce_async_(self, tensor: torch.Tensor, op: str, name: str) -> Any:
        """Begin to replace a tensor by all ranks' mean."""
        return distributed.all_reduce(tensor, async_op=True), tensor

    def synchronize(self, handle: Any) -> None:
        work, tensor = handle
        work.wait()
        tensor.div_(self.size())

    def allgather_object(self, mine: Any, name: str) -> list[Any]:
        found: list[Any] = [None] * self.size()
        distributed.all_gather_object(found, mine)
        return found

    def broadcast_object(self, mine: Any, root_rank: int, name: str) -> Any:
        box = [mine]
        distributed.broadcast_object_list(box, src=root_rank)
        return box[0]

    def shutdown(self) -> None:
        distributed.destroy_process_group()
