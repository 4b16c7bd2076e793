"""The ranks of a run: how they exchange objects and end together, their samples, their rate.

Importing this file needs the standard library only.
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")  # set by other launchers


class UserError(Exception):
    """A bad option or bad data: printed once for all ranks, without a traceback."""

    exit_code = 2


class Failed(UserError):
    """The options were legal, and the training failed."""

    exit_code = 1


@dataclass
class Ranks:
    """The processes that train together: which one this is, and how they exchange objects."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    gather: Callable[[Any], list[Any]]  # all ranks' objects, by rank
    broadcast: Callable[[Any], Any]  # rank 0's object
    close: Callable[[], None]
    controller: str = "none"  # Horovod's: mpi or gloo
    hvd: Any = None


def horovod(hvd: Any) -> Ranks:
    """Find the other ranks by Horovod; `hvd` is horovod.torch or horovod.tensorflow."""
    if "--timeline" in sys.argv:  # Horovod 0.28 starts one later only if it is told so here
        os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")
    hvd.init()
    return Ranks(
        rank=hvd.rank(),
        size=hvd.size(),
        local_rank=hvd.local_rank(),
        local_size=hvd.local_size(),
        gather=lambda mine: hvd.allgather_object(mine, name="gather"),
        broadcast=lambda mine: hvd.broadcast_object(mine, root_rank=0, name="broadcast"),
        close=hvd.shutdown,
        controller="mpi" if hvd.mpi_enabled() else "gloo",
        hvd=hvd,
    )


def torch_ranks() -> Ranks:
    """Find the other ranks by RANK, WORLD_SIZE and MASTER_ADDR, which `runner` and torchrun set."""
    import torch
    from torch import distributed

    def gather(mine: Any) -> list[Any]:
        everyone = [None] * distributed.get_world_size()
        distributed.all_gather_object(everyone, mine)
        return everyone

    def broadcast(mine: Any) -> Any:
        box = [mine]
        distributed.broadcast_object_list(box, src=0)
        return box[0]

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if "RANK" in os.environ:
        distributed.init_process_group(backend)
    elif any(os.environ.get(name, "1") != "1" for name in SIZES):
        sys.exit("error: RANK is not set: start the ranks by runner launch or torchrun")
    else:
        store = distributed.HashStore()
        distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    return Ranks(
        rank=distributed.get_rank(),
        size=distributed.get_world_size(),
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),
        local_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        gather=gather,
        broadcast=broadcast,
        close=distributed.destroy_process_group,
    )


def exchange(ranks: Ranks, value: Any = None, failure: UserError | None = None) -> list[Any]:
    """Return all ranks' values. If one failed, rank 0 prints why and all end. Collective."""
    mine = None if failure is None else (str(failure), failure.exit_code)
    everyone = ranks.gather((value, socket.gethostname(), mine))
    failures: dict[str, list[str]] = {}
    for rank, (_, host, failed) in enumerate(everyone):
        if failed:
            failures.setdefault(failed[0], []).append(f"{rank}@{host}")
    if failures:
        lines = []
        for message, where in failures.items():
            prefix = "" if len(where) == ranks.size else f"on rank {', '.join(where)}: "
            lines.append(f"error: {prefix}{message}")
        end(ranks, "\n".join(lines), max(failed[1] for _, _, failed in everyone if failed))
    return [answer[0] for answer in everyone]


def together(ranks: Ranks, action: Callable[[], Any]) -> Any:
    """Do `action` on every rank and return its value; a `UserError` ends all. Collective."""
    value, failure = None, None
    try:
        value = action()
    except UserError as error:
        failure = error
    exchange(ranks, failure=failure)
    return value


def compare_weights(ranks: Ranks, weights: Iterable[Any]) -> None:
    """Raise RuntimeError unless all ranks have the same weights (arrays). Collective."""
    total = hashlib.sha256()
    for array in weights:
        total.update(array.tobytes())
    digests = ranks.gather(total.hexdigest())
    strays = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if strays:
        raise RuntimeError(
            f"the ranks trained different models: the weights of rank {', '.join(strays)} "
            f"differ from those of rank 0 (of {len(digests)} ranks). The usual causes: a "
            "variable that was not broadcast before the first step, or gradients applied "
            "without an allreduce."
        )


def end(ranks: Ranks, text: str, code: int) -> NoReturn:
    """End all ranks with `code`; rank 0 first prints `text`. Collective."""
    if ranks.rank == 0 and text:
        print(text, file=sys.stderr, flush=True)
    ranks.gather(None)  # nobody exits before rank 0 has printed: launchers then kill the rest
    ranks.close()
    leave(code)


def leave(code: int) -> NoReturn:
    """End this process at once.

    Python's own way out takes up to a second, in which a launcher may kill late ranks, and threads
    of Gloo that wake up in it abort the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def threads(local_size: int) -> int:
    """Return the compute threads of this rank: OMP_NUM_THREADS, else its share of the CPUs."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    cpus = len(os.sched_getaffinity(0))
    bound = cpus < (os.cpu_count() or cpus)  # by the launcher; else the node's ranks share them
    return cpus if bound else max(1, cpus // local_size)


def check(args: Namespace, ranks: Ranks) -> Namespace:
    """Return the options. Raises `UserError` where Horovod, or its Adasum, cannot do them."""
    exchange, adasum = getattr(args, "exchange", "horovod"), getattr(args, "adasum", False)
    if exchange != "horovod" and (adasum or args.timeline):
        raise UserError(f"--adasum and --timeline are Horovod's: not with --exchange {exchange}")
    if adasum and ranks.size & (ranks.size - 1):
        raise UserError(f"--adasum needs 2, 4, 8, 16, ... ranks, not {ranks.size}")
    if adasum and ranks.controller != "mpi":
        raise UserError("--adasum needs the MPI controller, and this run has Gloo's")
    return args


@dataclass(frozen=True)
class Batch:
    """This rank's samples of a step: `parts` has those of each backward pass; some may be empty.

    All ranks have `total` samples in the step, and `taken` of the epoch are done after it.
    `weight` makes of a rank's *sum* of losses what averages, over all ranks, to the mean over all
    samples: ranks may have unequally many.
    """

    parts: tuple[Any, ...]
    total: int
    taken: int
    weight: float

    @property
    def own(self) -> int:
        return sum(len(part) for part in self.parts)


@dataclass(frozen=True)
class Shards:
    """The training set, shuffled in each epoch, and this rank's share of each step.

    All ranks shuffle alike. A step takes the next samples of that order for all ranks together,
    sharded by rank. So N ranks with batches of b see in a step what one rank with batches of N b
    sees. `drop_last` leaves out a short last step.
    """

    count: int
    rank: int
    size: int
    seed: int
    batch_size: int
    passes: int = 1
    drop_last: bool = False

    @property
    def per_step(self) -> int:
        return self.batch_size * self.passes * self.size

    @property
    def whole(self) -> int:
        """The number of samples of an epoch."""
        return self.count // self.per_step * self.per_step if self.drop_last else self.count

    def check(self) -> None:
        """Raise `UserError` for too few samples."""
        if self.count < self.size:
            raise UserError(
                f"{self.count} training samples for {self.size} ranks: each needs at least one"
            )
        if self.whole == 0:
            raise UserError(
                f"{self.count} training samples are fewer than one step of all ranks takes "
                f"({self.per_step}): give a smaller --batch-size"
            )

    def steps(self, taken: int = 0) -> int:
        """Return the number of steps of an epoch after its first `taken` samples."""
        return -(-(self.whole - taken) // self.per_step)

    def batches(self, epoch: int, taken: int = 0) -> Iterator[Batch]:
        """Yield the steps of an epoch, counted from 1, after its first `taken` samples."""
        import numpy as np

        order = np.random.default_rng([self.seed, epoch]).permutation(self.count)[: self.whole]
        for start in range(taken, self.whole, self.per_step):
            step = order[start : start + self.per_step]
            mine, b = step[self.rank :: self.size], self.batch_size
            parts = tuple(mine[i * b : (i + 1) * b] for i in range(self.passes))
            yield Batch(parts, len(step), start + len(step), self.size / len(step))


def learning_rate(args: Namespace, size: int, epochs_done: float, power: float = 1.0) -> float:
    """Return the rate: it warms up from that of one rank to `size ** power` times it.

    For SGD that is linear (Goyal et al. 2017, arXiv:1706.02677). Adam divides a gradient by its own
    size, so a larger batch, whose gradient has less noise, allows the square root of its growth
    (Malladi et al. 2022, arXiv:2205.10287). Adasum adapts to the number of ranks by itself.
    """
    scale = args.batches_per_allreduce * (1 if getattr(args, "adasum", False) else size)
    scale **= power
    reached = 1 if epochs_done >= args.warmup_epochs else epochs_done / args.warmup_epochs
    return float(args.base_lr * (1 + (scale - 1) * reached))


def decayed_rate(args: Namespace, size: int, epochs_done: float) -> float:
    """Return `learning_rate`, decayed as `--schedule` says: step, cosine or constant."""
    share = epochs_done / args.epochs
    decay = {
        "constant": 1.0,
        "step": 0.1 ** sum(share >= milestone for milestone in (30 / 90, 60 / 90, 80 / 90)),
        "cosine": 0.5 * (1 + math.cos(math.pi * share)),
    }
    return learning_rate(args, size, epochs_done) * decay[args.schedule]
