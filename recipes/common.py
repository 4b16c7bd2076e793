"""What the trainers share: settings, errors told once, threads, sharding, the learning rate.

Needs numpy and the standard library only; a trainer passes its own `hvd` module in
(`horovod.torch` or `horovod.tensorflow`), so this module serves both frameworks.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class UserError(Exception):
    """Something the user can mend: a bad option or bad data. Told once, without a traceback."""

    exit_code = 2


class Diverged(UserError):
    """The loss is no longer a number: the options were legal, the training failed."""

    exit_code = 1


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises `UserError`, so that one rank speaks for all of them."""

    def __init__(self, trainer: str, description: str) -> None:
        # Without abbreviations: `--epoch 3` is a typing error, not `--epochs 3`.
        super().__init__(
            prog=trainer,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\nAll options: python -m recipes.{self.prog} --help")


def positive_int(text: str) -> int:
    """Read a whole number of at least 1 (an argparse type)."""
    return int(_at_least(text, int, 1))


def natural_int(text: str) -> int:
    """Read a whole number of at least 0 (an argparse type)."""
    return int(_at_least(text, int, 0))


def natural_float(text: str) -> float:
    """Read a finite number of at least 0 (an argparse type)."""
    return _at_least(text, float, 0)


def positive_float(text: str) -> float:
    """Read a finite number above 0 (an argparse type)."""
    value = natural_float(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _at_least(text: str, kind: Callable[[str], float], least: int) -> float:
    try:
        value = kind(text)
    except ValueError:
        name = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text!r} is not {name}") from None
    if not (math.isfinite(value) and value >= least):
        raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
    return value


def together(hvd: Any, action: Callable[[], T]) -> T:
    """Do `action` on every rank and return its value, or stop all ranks if it failed on any.

    A `UserError` on one rank alone (a data folder missing on one node, say) would leave the
    other ranks waiting in their next allreduce. So all of them learn of it here: rank 0 prints
    the message to stderr, and every rank ends with the error's exit code.
    """
    value: T | None = None
    failure = None
    try:
        value = action()
    except UserError as error:
        failure = (str(error), error.exit_code)
    # Horovod: the explicit name matters: the default is the object's type, which differs by rank.
    failures = hvd.allgather_object((socket.gethostname(), failure), name="together")
    if any(found for _, found in failures):
        _stop(hvd, failures)
    return value  # type: ignore[return-value]  # None only if action itself returns None


def _stop(hvd: Any, failures: Sequence[tuple[str, tuple[str, int] | None]]) -> NoReturn:
    if hvd.rank() == 0:
        print(failure_text(failures), file=sys.stderr, flush=True)
    # Horovod: nobody leaves before rank 0 has spoken: launchers kill the rest at the first exit.
    hvd.broadcast_object(None, root_rank=0, name="told")
    hvd.shutdown()
    leave(max(found[1] for _, found in failures if found))


def leave(code: int) -> NoReturn:
    """End this process now.

    The usual end takes the interpreter up to a second, differently on each rank, and in that time
    a launcher kills those that are late: their exit code would be 143 instead of `code`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def failure_text(failures: Sequence[tuple[str, tuple[str, int] | None]]) -> str:
    """Say each different failure once, with the ranks it struck unless it struck all."""
    ranks_of: dict[str, list[str]] = {}
    for rank, (host, found) in enumerate(failures):
        if found:
            ranks_of.setdefault(found[0], []).append(f"{rank}@{host}")
    lines = []
    for message, ranks in ranks_of.items():
        where = "" if len(ranks) == len(failures) else f"on rank {', '.join(ranks)}: "
        lines.append(f"error: {where}{message}")
    return "\n".join(lines)


def threads(local_size: int) -> int:
    """Count the compute threads this rank may use, from the CPUs it was given.

    `OMP_NUM_THREADS` decides if set. Otherwise the CPUs this process may run on; where nobody
    has bound it to fewer than the machine has, the ranks of this host share them.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    cpus = len(os.sched_getaffinity(0))
    bound = cpus < (os.cpu_count() or cpus)
    return cpus if bound else max(1, cpus // local_size)


class Shards:
    """This rank's share of a training set, shuffled anew each epoch.

    All ranks shuffle alike (same seed, same epoch) and take every `size`-th sample from their
    *global* rank on. Where the count is not divisible, the shuffled order begins again, so that
    all ranks get equally many samples and steps: at most `size - 1` samples are seen twice, other
    ones each epoch. One step more on one rank would hang the rest.
    """

    def __init__(self, count: int, rank: int, size: int, seed: int) -> None:
        self.count, self.rank, self.size, self.seed = count, rank, size, seed
        self.per_rank = math.ceil(count / size)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch's order; forgotten, every epoch has the same batches."""
        self.epoch = epoch

    def steps(self, batch_size: int) -> int:
        """Count the batches of one epoch, the same on every rank."""
        return math.ceil(self.per_rank / batch_size)

    def batches(self, batch_size: int) -> list[NDArray[np.int64]]:
        """Return the indices of each batch; the last may be shorter, equally on all ranks."""
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count)
        mine = np.resize(order, self.per_rank * self.size)[self.rank :: self.size]
        return chunks(mine, batch_size)


def evaluation_share(count: int, rank: int, size: int) -> NDArray[np.int64]:
    """Return the test samples of this rank: over all ranks each sample exactly once.

    The shares may differ by one and may be empty, so evaluate with one reduction of sums at the
    end, never with one per batch.
    """
    return np.arange(rank, count, size)


def chunks(indices: NDArray[np.int64], length: int) -> list[NDArray[np.int64]]:
    """Cut `indices` into pieces of `length`, the last one shorter; nothing gives no piece."""
    return [indices[i : i + length] for i in range(0, len(indices), length)]


def means(sums: Sequence[float]) -> dict[str, float]:
    """Turn sums over all ranks into means.

    The sums, in this order: training loss, samples trained on, test loss, right answers, samples
    tested. Never average the means of ranks: their shares differ in size.
    """
    train_loss, trained, test_loss, right, tested = sums
    return {
        "train_loss": train_loss / trained,
        "test_loss": test_loss / tested,
        "accuracy": right / tested,
    }


def learning_rate(base: float, size: int, progress: float, warmup: float) -> float:
    """Return the rate after `progress` epochs: from `base` up to `base * size`, then constant.

    The batch of all ranks together is `size` times larger, so the rate is too, but only after
    `warmup` epochs: at once, it makes training diverge (Goyal et al. 2017, arXiv:1706.02677).
    """
    reached = 1.0 if progress >= warmup else progress / warmup
    return base * (1 + (size - 1) * reached)


def check_finite(numbers: dict[str, float], epoch: int, base_lr: float) -> None:
    """Raise `Diverged` if one of an epoch's numbers is not finite."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise Diverged(
                f"training diverged: {name} is {value} in epoch {epoch}.\n"
                f"Try a --base-lr below {base_lr:g}, or more --warmup-epochs."
            )


def digest(arrays: Iterable[NDArray[Any]]) -> str:
    """Return a checksum of the weights, equal only if every bit is."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def assert_identical(digests: Sequence[str]) -> None:
    """Raise `RuntimeError` naming the ranks whose weights are not those of rank 0."""
    strays = [str(rank) for rank, found in enumerate(digests) if found != digests[0]]
    if strays:
        raise RuntimeError(
            f"the ranks trained different models: the weights of rank {', '.join(strays)} differ "
            f"from those of rank 0 (of {len(digests)} ranks). The usual causes: a variable that "
            "was not broadcast before the first step, or gradients applied without an allreduce."
        )
