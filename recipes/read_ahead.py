"""PyTorch: batches on the device; those of images are read ahead by worker processes."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from recipes import distributed
from recipes.agreement import SIGNALS
from recipes.distributed import UserError
from recipes.run import Run

PRELOAD = ("torch", "horovod.torch")  # by the fork server, once, instead of by each worker


class BatchReader(Dataset):  # type: ignore[misc]  # torch is not installed where types are checked
    """Reads a whole batch for each key, in a worker; beside it the message of a `UserError`, or "".

    What a worker raises, a DataLoader raises with the worker's traceback as its message.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, key: Any) -> tuple[Any, Any, str]:
        epoch, indices = key
        try:
            return (*self.dataset.read(epoch, indices), "")
        except UserError as error:
            return (*self.dataset.read(epoch, indices[:0]), str(error))


def prefetch(
    dataset: Any, keys: Iterable[tuple[int, Any]], workers: int, device: torch.device
) -> Iterator[list[torch.Tensor]]:
    """Yield the batches of `keys` (epoch, indices) on the device.

    Worker processes read ahead, and each batch is copied while the one before is computed on.
    Raises `UserError` for data that cannot be read.
    """
    batches = _read(_loader(dataset, keys, workers, device))
    return batches if device.type == "cpu" else _copy_ahead(batches, device)


def _loader(
    dataset: Any, keys: Iterable[tuple[int, Any]], workers: int, device: torch.device
) -> DataLoader:
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    if workers:  # each evaluation starts new ones
        multiprocessing.set_forkserver_preload([name for name in PRELOAD if name in sys.modules])
    return DataLoader(
        BatchReader(dataset),
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        # A fork of this process would have half of what MPI and Horovod are in the middle of.
        multiprocessing_context="forkserver" if workers else None,
        worker_init_fn=_end_with_parent,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # not the one that the model draws from
    )


def _read(loader: DataLoader) -> Iterator[list[torch.Tensor]]:
    """Yield the batches in memory."""
    with _signals_are_not_for_children() if loader.num_workers else contextlib.nullcontext():
        batches = iter(loader)
    for *tensors, problem in batches:
        if problem:
            raise UserError(problem)
        yield tensors


def _copy_ahead(
    batches: Iterator[list[torch.Tensor]], device: torch.device
) -> Iterator[list[torch.Tensor]]:
    """Yield the batches on the GPU; the copy of the next one has begun by then."""
    copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()

    def copy(batch: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.cuda.stream(copying):
            return [tensor.to(device, non_blocking=True) for tensor in batch]

    copies = map(copy, batches)
    following = next(copies, None)
    while following is not None:
        computing.wait_stream(copying)
        ready = following
        for tensor in ready:
            tensor.record_stream(computing)
        following = next(copies, None)
        yield ready


def _end_with_parent(worker: int) -> None:
    """End this worker when its rank ends, however it does: its own parent is the fork server."""
    rank = multiprocessing.parent_process()

    def wait() -> None:
        if rank is not None:
            rank.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _signals_are_not_for_children() -> Iterator[None]:
    """Start children that do not get the signals which ask a run to stop.

    Slurm sends them to all processes of a step; children inherit that they are blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        # A rank that stops early leaves semaphores, which the tracker removes with a warning.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        resource_tracker.ensure_running()  # it unblocks SIGTERM when it starts its process
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ImageBatches:
    """This rank's batches, as normalized images and labels on the device."""

    def __init__(self, args: Namespace, data: Any, device: torch.device) -> None:
        self.args, self.data, self.device = args, data, device
        self.format = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        if data is None:
            size, count = args.image_size, args.batch_size
            x = torch.randn(count, 3, size, size, device=device)
            y = torch.randint(10, (count,), device=device)
            self.synthetic = x.contiguous(memory_format=self.format), y
        else:
            mean, std = (torch.tensor(stat, device=device) * 255 for stat in (data.mean, data.std))
            self.mean, self.std = mean.view(1, 3, 1, 1), std.view(1, 3, 1, 1)
        cpus = distributed.threads(1)
        default = cpus if device.type == "cuda" else 0
        self.workers = default if args.workers is None else args.workers

    def batches(self, dataset: Any, keys: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the batches of `keys`: epochs and indices. Raises `UserError`."""
        if self.data is None:
            yield from itertools.repeat(self.synthetic)
        for pixels, labels in prefetch(dataset, keys, self.workers, self.device):
            x = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std
            yield x.contiguous(memory_format=self.format), labels


class SequenceBatches:
    """This rank's sequences of tokens, on the device; with --synthetic random ones."""

    def __init__(self, args: Namespace, run: Run, vocabulary: int) -> None:
        self.run, self.device = run, torch.device(run.device)
        shape = args.batch_size, args.context + 1
        self.blank = torch.zeros((0, shape[1]), dtype=torch.int64, device=self.device)
        self.random = None
        if args.synthetic:
            torch.manual_seed(args.seed + 1 + run.ranks.rank)  # tokens of its own
            self.random = torch.randint(vocabulary, shape, device=self.device)

    def read(self, dataset: Any, indices: Any) -> torch.Tensor:
        """Return these sequences; none, and the run ends, where they cannot be read."""
        return self.run.read(lambda: self._read(dataset, indices), self.blank)

    def _read(self, dataset: Any, indices: Any) -> torch.Tensor:
        if self.random is not None:
            return self.random
        text = torch.from_numpy(dataset[indices])
        if self.device.type == "cpu":
            return text
        return text.pin_memory().to(self.device, non_blocking=True)
