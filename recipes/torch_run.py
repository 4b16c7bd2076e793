"""A training run with PyTorch: the device, precision, agreeing on a stop, checkpoints, profiles."""

from __future__ import annotations

import contextlib
import io
import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from recipes import common, options


def start(hvd: Any, settings: Callable[[], Namespace]) -> tuple[Namespace, torch.device]:
    """Read the settings and take this rank's device; an error on any rank stops all. Collective."""
    args = common.on_all_ranks(hvd, settings)
    return args, common.on_all_ranks(hvd, lambda: pick_device(args, hvd))


def pick_device(args: Namespace, hvd: Any) -> torch.device:
    """Choose a GPU if one is visible and wanted, else the CPU, with this rank's threads.

    Raises `UserError` for a GPU that is not there, float16 on a CPU, and impossible Adasum.
    """
    torch.set_num_threads(common.threads(hvd.local_size()))
    options.check_adasum(args, hvd)
    if args.device == "cpu" or not torch.cuda.is_available():
        options.check_cpu(args)
        return torch.device("cpu")
    # Horovod: the ranks of one host take its GPUs in turn.
    torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def optimizer_options(args: Namespace, hvd: Any) -> dict[str, Any]:
    """Return what the options say of exchanging gradients, for `hvd.DistributedOptimizer`."""
    return {
        "compression": hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        "op": hvd.Adasum if args.adasum else hvd.Average,
        "backward_passes_per_step": args.batches_per_allreduce,
        "gradient_predivide_factor": args.gradient_predivide_factor,
    }


class Run(common.Run):
    """What `common.Run` is, for a model of PyTorch. `hvd` may be a `process_group.World` too."""

    def __init__(
        self, args: Namespace, hvd: Any, trainer: str, device: torch.device, *,
        versions: dict[str, str] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        found = {"torch": torch.__version__, **(versions or {})}
        super().__init__(args, hvd, trainer, device=str(device), versions=found, **more)
        self.device = device
        self.scaler = torch.amp.GradScaler(device.type, enabled=args.amp)
        self.last_loss, self.bad_step = 0.0, torch.zeros((), dtype=torch.int64, device=device)

    def resume(
        self, model: Any, optimizer: Any, shards: common.Shards,
        kind: Callable[..., State] | None = None, parts: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Go on from a checkpoint, or begin, as `--resume` says; see `common.Run.begin`.

        A checkpoint has the states of model, optimizer and `parts`: by default the loss scaler.
        """
        more = {"scaler": self.scaler} if parts is None else parts
        self.begin((kind or State)(self.hvd, model, optimizer, **more), shards)
        if self.args.profile is not None and self.speaks:
            self.profiler = profiler(self.args, str(self.folder / "profile"))

    def scalar(self, value: float) -> torch.Tensor:
        return torch.tensor(value, device=self.device)

    def batches(self) -> Iterator[common.Batch]:
        for batch in super().batches():
            self.losses = self.scalar(0.0)
            yield batch

    def set_rate(self, optimizer: Any, rate: float) -> None:
        self.rate = rate
        for group in optimizer.param_groups:
            group["lr"] = rate

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which the model computes with `--bf16` or `--amp`."""
        if not (self.args.bf16 or self.args.amp):
            return contextlib.nullcontext()
        kind = torch.bfloat16 if self.args.bf16 else torch.float16
        context: contextlib.AbstractContextManager[Any] = torch.autocast(self.device.type, kind)
        return context

    def read(self, source: Any, part: common.Indices) -> Any:
        """Return `source[part]`; if it cannot be read, nothing, and `step` ends all ranks."""
        return self.read_or(lambda: source[part], lambda: source[part[:0]])

    def weighted(self, loss: torch.Tensor) -> torch.Tensor:
        """Count a part's sum of losses; return it so weighed that means count all samples alike.

        With Adasum it is the mean of this rank's own samples.
        """
        self.losses += loss.detach()
        own = 1 / max(1, self.batch.own)
        return loss * ((own if self.args.adasum else self.batch.weight) / self.each)

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of a part's *sum* of losses."""
        self.scaler.scale(self.weighted(loss)).backward()

    def step(self, optimizer: Any) -> None:
        """Change the weights by the gradients of all ranks, and count the step. Collective.

        Without an `optimizer` they are changed already. Saves if it is time to; ends all ranks if
        one was asked to stop, has a loss that is no number, or could not read its samples: all
        learn of it in the same step, from three numbers.
        """
        is_bad = self._is_bad(self.losses, self.loop.step + 1)
        mine = [bool(self.stop), self.failure is not None, is_bad]
        flags = torch.tensor(mine, dtype=torch.float32)
        # Horovod: while the gradients are exchanged anyway, and by the same kind of reduction, so
        # that it may travel together with them.
        handle = self.hvd.allreduce_async_(flags, op=self.hvd.Average, name="agreement")
        if optimizer is not None:
            self._update(optimizer)
        self.hvd.synchronize(handle)
        asked, unread, bad = flags.tolist()
        stop = self.heed(asked, unread, bad, self.last_loss, self.bad_step)
        self.step_done(self.losses, stop=stop)

    def _is_bad(self, loss: torch.Tensor, step: int) -> bool:
        """Whether the loss is no number; on a GPU that is looked at every `--log-interval` steps.

        Looking waits for the device.
        """
        if self.device.type == "cpu":
            self.last_loss = loss.item()
            self.bad_step.fill_(0 if math.isfinite(self.last_loss) else step)
            return not math.isfinite(self.last_loss)
        newly_bad = (self.bad_step == 0) & ~torch.isfinite(loss)
        self.bad_step = torch.where(newly_bad, step, self.bad_step)
        if step % self.args.log_interval:
            return False
        self.last_loss = math.nan if self.bad_step.item() else 0.0
        return math.isnan(self.last_loss)

    def _update(self, optimizer: Any) -> None:
        if self.args.adasum:
            optimizer.step()  # which combines changes, not gradients
            return
        # Horovod: wait for all ranks' gradients before the scaler looks at them; DDP has them.
        skip = contextlib.nullcontext
        if hasattr(optimizer, "synchronize"):
            optimizer.synchronize()
            skip = optimizer.skip_synchronize
        with skip():
            self.scaler.step(optimizer)
        self.scaler.update()

    def evaluate(
        self, model: nn.Module, count: int, guess: Callable[[common.Indices], Any],
        at_once: int = common.EVALUATION_BATCH,
    ) -> list[float]:  # fmt: skip
        """Test this rank's share of `count` samples, `at_once` of them at a time.

        `guess` returns guesses and truth for them. Returns its sum of losses, its right answers
        and its size.
        """
        loss = right = 0.0
        parts = self.test_parts(count, at_once)
        model.eval()
        with torch.no_grad():
            for part in parts:
                guesses, truth = guess(part)
                loss += functional.cross_entropy(guesses, truth, reduction="sum").item()
                right += (guesses.argmax(1) == truth).sum().item()
        return [loss, right, sum(map(len, parts)) * self.each]

    def finish(self, model: nn.Module, **facts: Any) -> None:
        """Check that all ranks have the same model, and write result.json. Collective."""
        self.conclude((weight.detach().cpu().numpy() for weight in model.parameters()), **facts)


class State:
    """Model, optimiser and the random states of all ranks, as a checkpoint (see saving.State)."""

    def __init__(self, hvd: Any, model: nn.Module, optimizer: Any, **more: Any) -> None:
        self.hvd, self.model = hvd, model
        self.parts = {"model": model, "optimizer": optimizer, **more}
        self.random: list[Any] = []

    def signature(self) -> str:
        return common.signature((k, v.shape) for k, v in self.model.state_dict().items())

    def gather(self) -> None:
        mine = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_initialized():
            mine["cuda"] = torch.cuda.get_rng_state()
        # Horovod: each rank draws its own dropout.
        self.random = self.hvd.allgather_object(mine, name="random")

    def write(self, path: Path) -> common.Sum:
        """Write everything, readable by torch.load with weights_only. Rank 0 only."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        whole = {**states, "random": self.random}
        return common.write_atomically(path, lambda stream: torch.save(whole, stream))

    def restore(self, payload: Any) -> str:
        """Take over what was written; return what could not be, in words."""
        found = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(found[name])
        return self.restore_random(found["random"])

    def restore_random(self, random: list[Any]) -> str:
        """Take over the ranks' random states; return what could not be, in words."""
        if len(random) != self.hvd.size():
            seed = [self.hvd.rank(), *random[0]["cpu"][:64].tolist()]
            torch.manual_seed(int(np.random.default_rng(seed).integers(2**62)))
            return (
                f"random states are those of {len(random)} ranks: drawn anew for {self.hvd.size()}"
            )
        mine = random[self.hvd.rank()]
        torch.set_rng_state(mine["cpu"])
        if "cuda" in mine and torch.cuda.is_initialized():
            torch.cuda.set_rng_state(mine["cuda"])
        return ""


def profiler(args: Namespace, folder: str) -> Any:
    """Start to profile the steps of `--profile`, counted from this run's first, into `folder`."""
    first, last = args.profile
    begun = torch.profiler.profile(
        schedule=torch.profiler.schedule(
            wait=max(0, first - 2), warmup=min(1, first - 1), active=last - first + 1, repeat=1
        ),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(folder),
    )
    begun.start()
    return begun
