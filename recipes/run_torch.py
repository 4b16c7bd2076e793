"""PyTorch's part of a run: the device, precision, evaluation, checkpoints, gradient exchange."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from recipes import checkpoints
from recipes.device import Device, Framework, settle, shared
from recipes.distributed import Ranks, UserError, exchange, threads
from recipes.run import Run

TEST_BATCH = 1000  # test samples at once


def pick_device(args: Namespace, ranks: Ranks) -> torch.device:
    """Return this rank's GPU, or the CPU; set `args.precision` to its default there."""
    torch.set_num_threads(threads(ranks.local_size))
    if args.device == "cpu" or not torch.cuda.is_available():
        if args.device == "gpu":
            raise UserError("--device gpu: this rank sees no GPU. Ask for one: --gpus-per-node 1")
        settle(args, ranks, Device(compilers=("g++", "clang++")))  # Inductor's
        return torch.device("cpu")
    # The ranks of a node take its GPUs in turn.
    torch.cuda.set_device(ranks.local_rank % torch.cuda.device_count())
    torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32
    torch.backends.cudnn.benchmark = True  # the fastest convolutions for these shapes
    capability, name = torch.cuda.get_device_capability(), torch.cuda.get_device_name()
    compilers = ("gcc", "cc", "clang")  # Triton's
    settle(args, ranks, Device(capability, name, torch.cuda.get_arch_list(), compilers))
    return torch.device("cuda", torch.cuda.current_device())


def autocast(args: Namespace, device: torch.device) -> Any:
    """Return the context in which the model computes in `--precision`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")


def framework(device: torch.device, ranks: Ranks, **versions: str) -> Framework:
    """Return what a run asks of PyTorch. Ends all ranks where two share a GPU. Collective."""
    versions = {"torch": torch.__version__, **versions}
    on_gpu = device.type == "cuda"
    uuid = torch.cuda.get_device_properties(device).uuid if on_gpu else ""
    gpus = ranks.gather((socket.gethostname(), str(uuid)))
    may_share = not on_gpu or "NCCL_MULTI_RANK_GPU_ENABLE" in os.environ
    exchange(ranks, failure=None if may_share else shared(ranks, gpus))
    if not on_gpu:
        return Framework(str(device), versions, profiler=start_profiler)
    return Framework(
        str(device),
        versions,
        mark=event_on_gpu,
        elapsed=lambda first, second: float(first.elapsed_time(second)) / 1000,
        peak_memory=torch.cuda.max_memory_allocated,
        gpu_name=torch.cuda.get_device_name(),
        profiler=start_profiler,
    )


def event_on_gpu() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def start_profiler(folder: str, first: int, last: int) -> Any:
    """Start profiling these steps into a folder."""
    schedule = torch.profiler.schedule(
        wait=max(0, first - 2), warmup=min(1, first - 1), active=last - first + 1, repeat=1
    )
    handler = torch.profiler.tensorboard_trace_handler(folder)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=handler)
    profiler.start()
    return profiler


def evaluate(
    run: Run,
    model: nn.Module,
    parts: list[Any],
    predict: Callable[[Any], Any],
    inference: Callable[[], Any] = torch.inference_mode,
) -> list[float]:
    """Test this rank's share; return its sum of losses, right answers and number of samples.

    `predict` returns logits and labels of a part. Nothing is exchanged here: shares differ in
    size and may be empty.
    """
    device = torch.device(run.device)
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    model.eval()
    with inference(), autocast(run.args, device):
        for part in parts:
            logits, labels = predict(part)
            loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
            sums += torch.stack([loss, (logits.argmax(1) == labels).sum()])
    model.train()
    return [*sums.tolist(), sum(map(len, parts)) * run.units_per_sample]


def set_rate(run: Run, optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups, and let the run record it."""
    run.rate = rate
    for group in optimizer.param_groups:
        group["lr"] = rate


class State:
    """Model, optimizer and the random states of all ranks, as a checkpoint.

    `weights` returns those that are saved, by default all; what `more` returns must be equal in the
    checkpoint too. `before_saving` is called on all ranks.
    """

    def __init__(
        self,
        ranks: Ranks,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        weights: Callable[[], dict[str, torch.Tensor]] | None = None,
        more: Callable[[], str] | None = None,
        before_saving: Callable[[], None] | None = None,
    ) -> None:
        self.ranks, self.model, self.optimizer = ranks, model, optimizer
        self.weights, self.more = weights or model.state_dict, more
        self.before_saving = before_saving

    def signature(self) -> str:
        shapes = [(name, weight.shape) for name, weight in self.weights().items()]
        extra = [] if self.more is None else [(self.more(), ())]
        return checkpoints.signature([*shapes, *extra])

    def pack(self, folder: Path) -> bytes:
        """Return what a checkpoint has; `folder` is for states that all ranks write together."""
        if self.before_saving is not None:
            self.before_saving()
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
    whole = (w.full_tensor() if hasattr(w, "full_tensor") else w for w in weights)  # of FSDP
    return (weight.detach().cpu().numpy() for weight in whole)


def with_ddp(model: nn.Module, fp16_allreduce: bool, **options: Any) -> DistributedDataParallel:
    """Return the model whose backward() averages the gradients over all ranks.

    All start from the weights of rank 0.
    """
    ids = [torch.cuda.current_device()] if next(model.parameters()).is_cuda else None
    network = DistributedDataParallel(
        model, device_ids=ids, gradient_as_bucket_view=True, **options
    )
    if fp16_allreduce:
        network.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return network


def pass_of_step(network: nn.Module, last: bool) -> Any:
    """Return the context of a backward pass: by DDP and FSDP only a step's last one exchanges."""
    if hasattr(network, "set_requires_gradient_sync"):
        network.set_requires_gradient_sync(last)
    wait = hasattr(network, "no_sync") and not last
    return network.no_sync() if wait else contextlib.nullcontext()


def clip_and_step(model: nn.Module, optimizer: Any, most: float) -> None:
    """Clip the norm of the gradients (those of all ranks, with Horovod too), and step."""
    with_horovod = hasattr(optimizer, "synchronize")
    if with_horovod:
        optimizer.synchronize()  # wait for the mean gradients of all ranks
    nn.utils.clip_grad_norm_(model.parameters(), most)
    with optimizer.skip_synchronize() if with_horovod else contextlib.nullcontext():
        optimizer.step()


class ChannelsLast:
    """Lets Horovod exchange weights in channels_last: as a view whose memory is contiguous."""

    def __init__(self, compression: Any) -> None:
        self.compression = compression

    def compress(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        tensor, context = self.compression.compress(tensor)
        strided = not tensor.is_contiguous()
        return tensor.permute(0, 2, 3, 1) if strided else tensor, (strided, context)

    def decompress(self, tensor: torch.Tensor, context: Any) -> torch.Tensor:
        strided, inner = context
        return self.compression.decompress(tensor.permute(0, 3, 1, 2) if strided else tensor, inner)
