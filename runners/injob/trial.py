"""One rank of the doctor's short job: what it sees, and how fast the ranks sum.

It records the node, joins the process group, measures, and sends all to rank 0. It runs inside any
image: standard library of Python 3.8 or newer, and Horovod or torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import sys
import time
from dataclasses import asdict
from typing import Any, Callable

from ..contract import interfaces
from ..contract.enums import Controller
from . import records

# Variables by which somebody chose how the ranks meet
CHOSEN = ("HOROVOD_CONTROLLER", "HOROVOD_GLOO_IFACE", "OMP_NUM_THREADS", "NCCL_SOCKET_IFNAME")
# Of the image file:
WHOLE = 64 * 2**20  # up to this size every byte is read; above it, samples
SAMPLES, SAMPLE = 64, 64 * 1024
# A SIF's header and its table of 48 descriptors of 585 bytes lie before this (SIF specification).
TABLE = 32 * 1024
BYTES = 64 * 2**20  # of the allreduce: large enough that its latency counts little
WARM_UP, REPETITIONS = 2, 5  # every rank must do the same
Action = Callable[[], Any]


def main(image_path: str, started: int, controller: str) -> None:
    """Run the trial, of `started` ranks; rank 0 writes `result.json` into OUTPUT_DIR."""
    own = rank_facts()
    framework, problems = find(Controller(controller))
    if framework is None:
        write(f"rank-{os.getpid()}@{socket.gethostname()}.json", {**own, "problems": problems})
        return
    world = framework.world
    world.init()
    own.update(rank_numbers(world))
    if world.local_rank() == 0:
        own["image"] = view_of_image(image_path)
    allreduce = measure(framework, world.size())
    own["threads"], own["device"] = framework.threads(), framework.device()
    own["gpu"] = framework.gpu()
    everybody = framework.gather(json.dumps(own).encode() + b"\n")
    if world.rank() == 0:
        ranks = [json.loads(line) for line in everybody.splitlines()]
        facts = {"framework": framework.name, "started": started}
        write("result.json", {**facts, "allreduce": allreduce, "ranks": ranks})
    world.shutdown()


def rank_facts() -> dict[str, Any]:
    """Return CPUs, limits, variables and interfaces of this rank, before it joins the others."""
    shared_memory = os.statvfs("/dev/shm")
    return {
        "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cpus_of_node": os.cpu_count(),
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "shared_memory": shared_memory.f_bavail * shared_memory.f_frsize,
        "variables": {name: os.environ[name] for name in CHOSEN if name in os.environ},
        "interfaces": [asdict(item) for item in interfaces.interfaces()],
        "ports": [asdict(port) for port in interfaces.ports()],
    }


def rank_numbers(world: Any) -> dict[str, int]:
    """Return rank and size, global, local and across nodes, as far as the framework has them."""
    names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    return {name: int(getattr(world, name)()) for name in names if hasattr(world, name)}


def view_of_image(path: str) -> dict[str, Any]:
    """Return what this node sees of the file: device, inode, size, time and a digest.

    `of` says which bytes the digest is of. Without one `problem` says why.
    """
    try:
        facts = os.stat(path)
        seen: dict[str, Any] = {
            "path": path,
            "device": facts.st_dev,
            "inode": facts.st_ino,
            "size": facts.st_size,
            "mtime": facts.st_mtime,
        }
        if os.path.isdir(path):
            return {**seen, "problem": "a folder has no digest"}
        digest, of = _digest(path, facts.st_size)
        return {**seen, "sha256": digest, "of": of}
    except OSError as error:
        return {"path": path, "problem": str(error)}


def _digest(path: str, size: int) -> tuple[str, str]:
    """Digest every byte, or the header with its table and samples at equal distances to the end."""
    with open(path, "rb") as file:
        if size <= WHOLE:
            return hashlib.sha256(file.read()).hexdigest(), "every byte"
        digest = hashlib.sha256(file.read(TABLE))
        for number in range(1, SAMPLES + 1):
            file.seek(max(0, size * number // SAMPLES - SAMPLE))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest(), f"header, table and {SAMPLES} samples of {SAMPLE // 1024} KiB"


def write(name: str, value: Any) -> None:
    records.write_json(os.path.join(os.environ["OUTPUT_DIR"], name), value, indent=2)


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
        """Return the UUID of this rank's GPU, "" without one or where torch cannot say."""
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


class TorchWorld:
    """The process group of torch.distributed, with Horovod's names; it has no cross ranks.

    The shim has set the variables by which it meets.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.rank, self.size = torch.distributed.get_rank, torch.distributed.get_world_size
        self.shutdown = torch.distributed.destroy_process_group

    def init(self) -> None:
        """Create the process group; NCCL needs each rank's GPU to be chosen before."""
        backend = "gloo"
        if self.torch.cuda.is_available():
            backend = "nccl"
            self.torch.cuda.set_device(self.local_rank() % self.torch.cuda.device_count())
        self.torch.distributed.init_process_group(backend)

    def local_rank(self) -> int:
        return int(os.environ["LOCAL_RANK"])

    def local_size(self) -> int:
        return int(os.environ["LOCAL_WORLD_SIZE"])


class Distributed(Torch):
    """torch.distributed where Horovod is not wanted: NCCL where there are GPUs, else Gloo."""

    name = "torch.distributed"

    def __init__(self) -> None:
        import torch
        import torch.distributed

        self.torch, self.world = torch, TorchWorld(torch)

    def summing(self, count: int, name: str) -> Action:
        """Return the same allreduce; it sums in place, so it needs a copy."""
        data = self.torch.full((count,), float(self.world.rank() + 1), device=self.device())

        def act() -> Any:
            sums = data.clone()
            self.torch.distributed.all_reduce(sums)
            return sums[-1].item()

        return act

    def gather(self, data: bytes) -> bytes:
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
        return ""  # it does not name the GPU itself

    def threads(self) -> int:
        chosen = int(self.tf.config.threading.get_intra_op_parallelism_threads())
        return chosen or len(os.sched_getaffinity(0))  # 0 means one for each CPU

    def summing(self, count: int, name: str) -> Action:
        with self.tf.device(self.device()):
            data = self.tf.fill([count], float(self.world.rank() + 1))
        return lambda: float(self.world.allreduce(data, op=self.world.Sum, name=name)[-1])

    def gather(self, data: bytes) -> bytes:
        mine = self.tf.constant(list(data), dtype=self.tf.uint8)
        return bytes(self.world.allgather(mine).numpy())


def find(controller: Controller) -> tuple[Any, dict[str, str]]:
    """Return the first framework that can be used, None without one, and why the others cannot.

    It is torch.distributed where the job's controller is "none", and else Horovod's.
    """
    problems: dict[str, str] = {}
    kinds = (Distributed,) if controller is Controller.NONE else (Torch, TensorFlow)
    for kind in kinds:
        try:
            return kind(), problems
        except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
            problems[kind.name] = str(error)
    return None, problems


def measure(framework: Any, ranks: int) -> dict[str, Any]:
    """Return the median seconds of an allreduce, its bus bandwidth, and whether all sums are right.

    Bus bandwidth, in bytes per second, is what the slowest link must carry: size / time times
    2 (n - 1) / n (nccl-tests, doc/PERFORMANCE.md).
    """
    act = framework.summing(BYTES // 4, "trial")
    sums, seconds = [], []
    for _ in range(WARM_UP + REPETITIONS):
        began = time.perf_counter()
        sums.append(act())
        seconds.append(time.perf_counter() - began)
    median = sorted(seconds[WARM_UP:])[REPETITIONS // 2]
    right = set(sums) == {ranks * (ranks + 1) / 2}
    bus = BYTES / median * 2 * (ranks - 1) / ranks
    return {"bytes": BYTES, "seconds": median, "bus": bus, "right": right}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
