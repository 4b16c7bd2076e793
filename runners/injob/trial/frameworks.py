"""Whatever forms the trial's world in the image, and how fast the ranks sum numbers by it."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

# Bytes and repetitions; every rank must do the same.
SIZES = ((64 * 1024, 15), (2**20, 10), (16 * 2**20, 5))
WARM_UP = 2
Action = Callable[[], Any]


class Torch:
    """horovod.torch."""

    name = "torch"

    def __init__(self) -> None:
        import horovod.torch as hvd
        import torch

        self.world, self.torch = hvd, torch

    def device(self) -> str:
        """Return where tensors lie: a GPU of this rank's, if there is one."""
        if not self.torch.cuda.is_available():
            return "cpu"
        return f"cuda:{self.world.local_rank() % self.torch.cuda.device_count()}"

    def gpu(self) -> str:
        """Return what names this rank's GPU among all, "" without one or where torch cannot say."""
        if self.device() == "cpu":
            return ""
        return str(getattr(self.torch.cuda.get_device_properties(self.device()), "uuid", ""))

    def threads(self) -> int:
        """Return how many threads one operation takes."""
        return int(self.torch.get_num_threads())

    def summing(self, count: int, name: str) -> Action:
        """Return the allreduce of `count` float32 numbers, each rank's rank + 1; it gives the sum.

        It returns when the sum is there, on a GPU too: `item` waits for it.
        """
        data = self.torch.full((count,), float(self.world.rank() + 1), device=self.device())
        return lambda: self.world.allreduce(data, op=self.world.Sum, name=name)[-1].item()

    def gather(self, data: bytes) -> bytes:
        """Return every rank's bytes, one after the other."""
        mine = self.torch.tensor(list(data), dtype=self.torch.uint8)
        return bytes(self.world.allgather(mine).tolist())


class Ranks:
    """The world of torch.distributed, which the shim's variables lead to, under Horovod's names."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.rank, self.size = torch.distributed.get_rank, torch.distributed.get_world_size
        self.shutdown = torch.distributed.destroy_process_group
        self.column: list[int] = []  # the ranks with this one's local rank, one on each node

    def init(self) -> None:
        """Form the world; NCCL wants each rank's GPU to be chosen before."""
        backend = "gloo"
        if self.torch.cuda.is_available():
            backend = "nccl"
            self.torch.cuda.set_device(self.local_rank() % self.torch.cuda.device_count())
        self.torch.distributed.init_process_group(backend)
        every: list[Any] = [None] * self.size()
        self.torch.distributed.all_gather_object(every, self.local_rank())
        self.column = [rank for rank, local in enumerate(every) if local == self.local_rank()]

    def local_rank(self) -> int:
        return int(os.environ["LOCAL_RANK"])

    def local_size(self) -> int:
        return int(os.environ["LOCAL_WORLD_SIZE"])

    def cross_rank(self) -> int:
        return self.column.index(self.rank())

    def cross_size(self) -> int:
        return len(self.column)


class Distributed(Torch):
    """torch.distributed where Horovod is not wanted: NCCL where there are GPUs, else Gloo."""

    name = "torch.distributed"

    def __init__(self) -> None:
        import torch
        import torch.distributed

        self.torch, self.world = torch, Ranks(torch)

    def summing(self, count: int, name: str) -> Action:
        """Return the same; it sums in place, so each time begins with a copy."""
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


class TensorFlow:
    """horovod.tensorflow, with the functions of Torch."""

    name = "tensorflow"

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import horovod.tensorflow as hvd
        import tensorflow as tf

        self.world, self.tf = hvd, tf
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)

    def device(self) -> str:
        gpus = len(self.tf.config.list_physical_devices("GPU"))
        return f"GPU:{self.world.local_rank() % gpus}" if gpus else "cpu"

    def gpu(self) -> str:
        """Return "": TensorFlow does not name the GPU itself."""
        return ""

    def threads(self) -> int:
        """Return how many threads one operation takes; 0 means one for each CPU."""
        chosen = int(self.tf.config.threading.get_intra_op_parallelism_threads())
        return chosen or len(os.sched_getaffinity(0))

    def summing(self, count: int, name: str) -> Action:
        with self.tf.device(self.device()):
            data = self.tf.fill([count], float(self.world.rank() + 1))
        return lambda: float(self.world.allreduce(data, op=self.world.Sum, name=name)[-1])

    def gather(self, data: bytes) -> bytes:
        mine = self.tf.constant(list(data), dtype=self.tf.uint8)
        return bytes(self.world.allgather(mine).numpy())


def find(controller: str) -> tuple[Any, dict[str, str]]:
    """Return the first framework that can be used, None without one, and why the others cannot.

    It is torch.distributed where the job's controller is "none", and else Horovod's.
    """
    problems: dict[str, str] = {}
    kinds = (Distributed,) if controller == "none" else (Torch, TensorFlow)
    for kind in kinds:
        try:
            return kind(), problems
        except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
            problems[kind.name] = str(error)
    return None, problems


def measure(framework: Any, ranks: int) -> list[dict[str, Any]]:
    """Return, for each size, median seconds, algorithm and bus bandwidth in bytes a second.

    Bus bandwidth is what the slowest link must carry: algorithm bandwidth times 2 (n - 1) / n
    (nccl-tests, doc/PERFORMANCE.md). `right` is whether every sum was; `moved` are the bytes of
    them all, of which each node sends at least as many.
    """
    return [_measured(framework, ranks, size, times) for size, times in SIZES]


def _measured(framework: Any, ranks: int, size: int, times: int) -> dict[str, Any]:
    act = framework.summing(size // 4, f"trial.{size}")
    expected = ranks * (ranks + 1) / 2
    right = all(act() == expected for _ in range(WARM_UP))
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        right = act() == expected and right
        seconds.append(time.perf_counter() - began)
    row = result(size, sorted(seconds)[times // 2], ranks, right)
    return {**row, "moved": size * (WARM_UP + times)}


def result(size: int, seconds: float, ranks: int, right: bool) -> dict[str, Any]:
    rate = size / seconds
    bus = rate * 2 * (ranks - 1) / ranks
    return {"bytes": size, "seconds": seconds, "algorithm": rate, "bus": bus, "right": right}
