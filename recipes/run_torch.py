"""PyTorch's part of a run: ranks of torch.distributed, the device, precision, checkpoints."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from recipes import run, saving
from recipes.ranks import Ranks, UserError, exchange, threads

SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")  # set by other launchers
TEST_BATCH = 1000  # test samples at once


def find_ranks() -> Ranks:
    """Find the other ranks by RANK, WORLD_SIZE and MASTER_ADDR, which `runner` and torchrun set."""

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


def pick_device(args: Namespace, ranks: Ranks) -> torch.device:
    """Return this rank's GPU, or the CPU; set `args.precision` to its default there."""
    torch.set_num_threads(threads(ranks.local_size))
    if args.device == "cpu" or not torch.cuda.is_available():
        if args.device == "gpu":
            raise UserError("--device gpu: this rank sees no GPU. Ask for one: --gpus-per-node 1")
        native = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
        compilers = ["g++", "clang++"]
        args.precision = args.precision or "fp32"
        device = torch.device("cpu")
    else:
        # The ranks of a node take its GPUs in turn.
        torch.cuda.set_device(ranks.local_rank % torch.cuda.device_count())
        torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32
        torch.backends.cudnn.benchmark = True  # the fastest convolutions for these shapes
        native = torch.cuda.get_device_capability() >= (8, 0)
        compilers = ["gcc", "cc", "clang"]
        args.precision = args.precision or ("bf16" if native else "fp32")
        device = torch.device("cuda", torch.cuda.current_device())
    if getattr(args, "compile", False) and not any(map(shutil.which, compilers)):
        raise UserError(f"--compile needs a compiler, and there is none here: {compilers[0]}")
    if args.precision == "bf16" and not native and ranks.rank == 0:
        print(f"note: this {device.type} has no bfloat16 units: --precision bf16 is slow here")
    return device


def autocast(args: Namespace, device: torch.device) -> Any:
    """Return the context in which the model computes in `--precision`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")


class Run(run.Run):
    """A run with PyTorch (see `run.Run`)."""

    inference = torch.inference_mode  # what evaluation runs in

    def __init__(self, *args: Any, versions: dict[str, str] | None = None, **more: Any) -> None:
        more["versions"] = {"torch": torch.__version__, **(versions or {})}
        super().__init__(*args, **more)
        self.on_gpu = self.device.startswith("cuda")
        exchange(self.ranks, failure=self._shared_gpu())

    def _shared_gpu(self) -> UserError | None:
        """Return the error of two ranks on one GPU, which NCCL calls "invalid usage"."""
        uuid = torch.cuda.get_device_properties(self.device).uuid if self.on_gpu else ""
        gpus = self.ranks.gather((socket.gethostname(), str(uuid)))
        mine = [str(rank) for rank, gpu in enumerate(gpus) if gpu == gpus[self.ranks.rank]]
        if not self.on_gpu or len(mine) == 1 or "NCCL_MULTI_RANK_GPU_ENABLE" in os.environ:
            return None
        return UserError(f"ranks {', '.join(mine)} share a GPU: start as many ranks as GPUs")

    def mark(self) -> Any:
        if not self.on_gpu:
            return super().mark()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, first: Any, second: Any) -> float:
        return first.elapsed_time(second) / 1000 if self.on_gpu else super().elapsed(first, second)

    def peak_memory(self) -> int:
        return torch.cuda.max_memory_allocated() if self.on_gpu else super().peak_memory()

    def start_profiler(self, folder: str, first: int, last: int) -> Any:
        schedule = torch.profiler.schedule(
            wait=max(0, first - 2), warmup=min(1, first - 1), active=last - first + 1, repeat=1
        )
        handler = torch.profiler.tensorboard_trace_handler(folder)
        profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=handler)
        profiler.start()
        return profiler

    def test_parts(self, count: int, at_once: int) -> list[Any]:
        """Return this rank's share of `count` test samples in parts of `at_once`."""
        share = np.arange(self.ranks.rank, count, self.ranks.size)
        return [share[start : start + at_once] for start in range(0, len(share), at_once)]

    def evaluate(
        self, model: nn.Module, parts: list[Any], predict: Callable[[Any], Any]
    ) -> list[float]:
        """Test this rank's share; return its sum of losses, right answers and number of samples.

        `predict` returns logits and labels of a part. Nothing is exchanged here: shares differ in
        size and may be empty.
        """
        device = torch.device(self.device)
        sums = torch.zeros(2, dtype=torch.float64, device=device)
        model.eval()
        with self.inference(), autocast(self.args, device):
            for part in parts:
                logits, labels = predict(part)
                loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
                sums += torch.stack([loss, (logits.argmax(1) == labels).sum()])
        model.train()
        return [*sums.tolist(), sum(map(len, parts)) * self.each]

    def gpu_name(self) -> str:
        return torch.cuda.get_device_name() if self.on_gpu else ""


class State:
    """Model, optimizer and the random states of all ranks, as a checkpoint."""

    def __init__(self, ranks: Ranks, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.ranks, self.model, self.optimizer = ranks, model, optimizer

    def signature(self) -> str:
        return saving.signature((name, value.shape) for name, value in self.weights().items())

    def weights(self) -> dict[str, torch.Tensor]:
        weights: dict[str, torch.Tensor] = self.model.state_dict()
        return weights

    def pack(self, folder: Path) -> bytes:
        """Return what a checkpoint has; `folder` is for states that all ranks write together."""
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_initialized():
            random["cuda"] = torch.cuda.get_rng_state()
        every = self.ranks.gather(random)  # each rank draws its own dropout
        if self.ranks.rank:
            return b""
        stream = io.BytesIO()
        states = {"model": self.weights(), "optimizer": self.optimizer.state_dict()}
        torch.save({**states, "random": every}, stream)
        return stream.getvalue()

    def unpack(self, payload: bytes) -> None:
        """Restore what `pack` returned; with another number of ranks random states are new."""
        saved = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        self.model.load_state_dict(saved["model"], strict=False)  # the signature was compared
        self.optimizer.load_state_dict(saved["optimizer"])
        random, rank = saved["random"], self.ranks.rank
        if len(random) != self.ranks.size:
            torch.manual_seed(int.from_bytes(bytes(random[0]["cpu"][:4].tolist()), "big") + rank)
            return
        torch.set_rng_state(random[rank]["cpu"])
        if "cuda" in random[rank] and torch.cuda.is_initialized():
            torch.cuda.set_rng_state(random[rank]["cuda"])


def arrays(weights: Iterable[torch.Tensor]) -> Iterable[Any]:
    return (weight.detach().cpu().numpy() for weight in weights)


class Reader(Dataset):  # type: ignore[misc]  # torch is not installed where types are checked
    """Reads a whole batch for each key; a fault is an answer, for it comes from a worker."""

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
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    loader = DataLoader(
        Reader(dataset),
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        # A fork of this process would have half of what MPI and Horovod are in the middle of.
        multiprocessing_context="forkserver" if workers else None,
        worker_init_fn=_end_with_parent,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # not the one that the model draws from
    )
    with _signals_are_not_for_children() if workers else contextlib.nullcontext():
        batches = iter(loader)
    if device.type == "cpu":
        for *tensors, fault in batches:
            if fault:
                raise UserError(fault)
            yield tensors
        return
    copies, computing = torch.cuda.Stream(), torch.cuda.current_stream()

    def copied() -> Iterator[list[torch.Tensor]]:
        for *tensors, fault in batches:
            if fault:
                raise UserError(fault)
            with torch.cuda.stream(copies):
                moved = [tensor.to(device, non_blocking=True) for tensor in tensors]
            yield moved

    ahead = copied()
    following = next(ahead, None)
    while following is not None:
        computing.wait_stream(copies)
        ready = following
        for tensor in ready:
            tensor.record_stream(computing)
        following = next(ahead, None)
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, saving.SIGNALS)
    try:
        # A rank that stops early leaves semaphores, which the tracker removes with a warning.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        resource_tracker.ensure_running()  # it unblocks SIGTERM when it starts its process
        signal.pthread_sigmask(signal.SIG_BLOCK, saving.SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
