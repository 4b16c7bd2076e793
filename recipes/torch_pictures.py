"""Pictures on their way to the device, read ahead by worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from recipes.common import Indices, Loop, UserError
from recipes.common.abort import SIGNALS
from recipes.pictures import Pictures, PictureSet

Key = tuple[int, Indices]  # epoch, and which pictures
Tensors = tuple[torch.Tensor, torch.Tensor]


class Readable(Dataset):  # type: ignore[misc]  # torch is not installed where types are checked
    """A whole batch under each key; a fault is an answer too, for it comes from another process."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __getitem__(self, key: Key) -> tuple[Any, Any, str]:
        epoch, part = key
        try:
            return (*self.pictures.read(epoch, part), "")
        except UserError as error:
            return (*self.pictures.read(epoch, part[:0]), str(error))


class Scaled:
    """Takes batches to the device, as (count, 3, size, size) with mean 0 and deviation 1."""

    def __init__(self, data: PictureSet, device: torch.device) -> None:
        self.device = device
        self.mean, self.deviation = (
            torch.tensor(values, device=device).view(1, 3, 1, 1)
            for values in (data.mean, data.deviation)
        )

    def __call__(self, pixels: torch.Tensor, labels: torch.Tensor) -> Tensors:
        there = pixels.to(self.device, non_blocking=True).permute(0, 3, 1, 2).contiguous()
        x = (there.float() / 255 - self.mean) / self.deviation
        return x, labels.to(self.device, non_blocking=True)


def stream(pictures: Pictures, keys: Iterable[Key], workers: int, scaled: Scaled) -> Iterator[Any]:
    """Yield the batches of `keys` on the device; `workers` processes read ahead, with 0 this one.

    Raises `UserError` for a picture that cannot be read.
    """
    # That there are more workers than cores is the user's will, and each rank would say it anew.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    loader = DataLoader(
        Readable(pictures), batch_size=None, sampler=keys, num_workers=workers,
        # A fork of this process would have half of what MPI and Horovod are in the middle of.
        multiprocessing_context="forkserver" if workers else None,
        worker_init_fn=_end_with_parent,
        pin_memory=scaled.device.type == "cuda",
        generator=torch.Generator(),  # not the one that the model draws from
    )  # fmt: skip
    with _signals_are_not_for_children() if workers else contextlib.nullcontext():
        ahead = iter(loader)
    for pixels, labels, fault in ahead:
        if fault:
            raise UserError(fault)
        yield scaled(pixels, labels)


class Feed:
    """The training pictures of a run from where it is, to be asked for part by part."""

    def __init__(
        self, data: PictureSet, loop: Loop, epochs: int, workers: int, device: torch.device
    ) -> None:
        self.scaled, self.pictures = Scaled(data, device), data.train
        keys = (key for key in loop.parts(epochs) if len(key[1]))
        self.ahead = stream(data.train, keys, workers, self.scaled)

    def __getitem__(self, part: Indices) -> Tensors:
        """Return what comes next, which is `part`. Raises `UserError`, and is at its end then."""
        if len(part):
            found: Tensors = next(self.ahead)
            return found
        pixels, labels = self.pictures.read(0, part)
        return self.scaled(torch.from_numpy(pixels), torch.from_numpy(labels))


def _end_with_parent(worker: int) -> None:
    """End this worker process when the rank ends, however it does.

    torch looks whether a worker's own parent has gone, but that is the fork server, which in turn
    waits for the workers.
    """
    rank = multiprocessing.parent_process()

    def end() -> None:
        if rank is not None:
            rank.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


@contextlib.contextmanager
def _signals_are_not_for_children() -> Iterator[None]:
    """Keep from processes that are started here the signals which ask a run to stop.

    Slurm sends them to all processes of a step. Children inherit that signals are blocked; in this
    process they only wait.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        # A rank that stops early leaves semaphores, which the tracker takes away with a warning.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        resource_tracker.ensure_running()  # which unblocks SIGTERM when it starts its process
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
