"""Watches PyTorch's optimizers for the exchange check: checksums of parameters, now and then.

By the hooks that torch.optim offers (2.0 and later). Nothing is added to what the ranks say to each
other, and none waits: checksums go to the shim.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import weakref
import zlib
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, Callable

from . import weights
from .hardware import cpu_model

LOSSES = 3
KEY = "_runner_training"
MOST = 1024  # parameters that have a checksum of their own; else several share one
AVERAGERS = "torch.distributed.algorithms.model_averaging.averagers"
AVERAGED = "the weights are averaged now and then (local SGD)"


class Training:
    """One optimizer's: it holds the parameters of small models only."""

    def __init__(self, number: int, optimizer: Any) -> None:
        self.name, self.optimizer = f"torch {number}", weakref.ref(optimizer)
        parameters = parameters_of(optimizer)
        size = sum(one.numel() * one.element_size() for one in parameters)
        self.kept = parameters if size < weights.KEPT_BYTES else None
        self.steps, self.told = 0, -1
        self.version = 0
        self.traces: dict[int, int] = {}
        self.about: dict[str, Any] = {}

    def parameters(self) -> Sequence[Any]:
        optimizer = self.optimizer()
        return parameters_of(optimizer) if optimizer is not None else self.kept or ()


def parameters_of(optimizer: Any) -> list[Any]:
    each = [one for group in optimizer.param_groups for one in group["params"]]
    return list({id(one): one for one in each}.values())


class Watch:
    """One process's. `tell` sends the fields of a report; `torch` is the module."""

    def __init__(self, torch: Any, tell: Callable[..., None]) -> None:
        self.torch, self.tell = torch, tell
        self.trainings: list[Training] = []
        self.losses: list[float] = []
        self.depth = 0  # of steps within steps
        self.frame: FrameType | None = None  # of the outermost
        optimizers = sys.modules["torch.optim.optimizer"]
        if hasattr(optimizers, "register_optimizer_step_pre_hook"):
            optimizers.register_optimizer_step_pre_hook(self.before)
            optimizers.register_optimizer_step_post_hook(self.after)
            self._watch_losses()
            os.register_at_fork(after_in_child=self.trainings.clear)  # those are the parent's

    def _watch_losses(self) -> None:
        backward, plain = self.torch.Tensor.backward, self.torch.Tensor

        def noted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if len(self.losses) < LOSSES and type(tensor) is plain and tensor.numel() == 1:
                # Of a tensor without a value, as in torch.func, there is no loss to note.
                with contextlib.suppress(RuntimeError):
                    self.losses += [] if captures(self.torch) else [float(tensor.detach())]
            return backward(tensor, *args, **kwargs)

        noted.__doc__ = backward.__doc__
        self.torch.Tensor.backward = noted

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Look at the weights before a step, if it is time to."""
        if self.torch.compiler.is_compiling():
            return
        frame = sys._getframe(1)
        if self.depth and not self._is_within(frame):
            self.depth = 0  # that step ended with an error
        self.depth += 1
        if self.depth > 1:
            return  # a step within a step: of Horovod's optimizer, or ZeRO's
        self.frame = frame
        training = optimizer.__dict__.get(KEY) or self._begin(optimizer)
        training.steps += 1
        if training.steps == 1 or weights.FIRST_COMPARED <= training.steps <= weights.LAST_TRACED:
            with weights.told_if_it_fails(self.tell, training.name, training.about):
                self._trace(training)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.depth = max(self.depth - 1, 0)
        if not self.depth:
            self.frame = None
            if training := optimizer.__dict__.get(KEY):
                first, last = optimizer.param_groups[0], optimizer.param_groups[-1]
                training.version = version([*first["params"][:1], *last["params"][-1:]])

    def _is_within(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None

    def _begin(self, optimizer: Any) -> Training:
        for one in self.trainings:
            if one.optimizer() is None:  # its training is over
                self._end(one)
                one.kept = None
        training = Training(len(self.trainings), optimizer)
        optimizer.__dict__[KEY] = training
        if len(self.trainings) < weights.OPTIMIZERS:
            self.trainings.append(training)
        return training

    def _trace(self, training: Training) -> None:
        if training not in self.trainings or captures(self.torch):
            return
        parameters, step = training.parameters(), training.steps
        if not training.about:
            training.about.update(describe(self.torch, parameters))
        if training.about["sharded"]:
            return
        training.traces[step] = zlib.crc32(b"".join(pieces(self.torch, parameters, weights.FEW)))
        if step in (weights.FIRST_COMPARED, weights.LAST_TRACED):
            if step == weights.FIRST_COMPARED:
                training.about.update(details(training.optimizer(), parameters))
            self._send(training, step, parameters)

    def _send(self, training: Training, step: int, parameters: Sequence[Any], **more: Any) -> None:
        check = {} if training.about["sharded"] else checked(self.torch, parameters)
        traces, training.traces = training.traces, {}
        self.tell(
            optimizer=training.name, step=step, traces=traces, losses=self.losses,
            **training.about, **check, **more,
        )  # fmt: skip

    def end(self) -> None:
        """Report the last weights."""
        for one in self.trainings:
            self._end(one)

    def _end(self, training: Training) -> None:
        with weights.told_if_it_fails(self.tell, training.name, training.about):
            parameters = training.parameters()
            if training.told == training.steps or not parameters:
                return
            training.told = training.steps
            changed = version(parameters) != training.version
            if not training.about:
                training.about.update(describe(self.torch, parameters))
            if training.steps < weights.FIRST_COMPARED and not training.about["sharded"]:
                training.about.update(details(training.optimizer(), parameters))
            self._send(training, weights.END, parameters, steps=training.steps, changed=changed)


def version(parameters: Sequence[Any]) -> int:
    """Return a number that changes as the first and the last of the parameters do."""
    return sum(parameters[at]._version for at in (0, -1)) if parameters else 0


def captures(torch: Any) -> bool:
    """Whether a CUDA graph is being recorded, in which nothing may be read."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def pieces(torch: Any, parameters: Iterable[Any], count: int) -> list[bytes]:
    """Return up to `count` values of each parameter, spread over it, as bytes."""
    groups: dict[tuple[Any, Any], list[tuple[int, Any]]] = {}
    for place, one in enumerate(parameters):
        piece = spread(one.detach(), count)
        groups.setdefault((one.device, one.dtype), []).append((place, piece))
    data: dict[int, bytes] = {}
    for group in groups.values():
        joined = torch.cat([piece for _, piece in group]).cpu()  # one transfer for each device
        width, start = joined.element_size(), joined.data_ptr()
        for place, piece in group:
            length = piece.numel() * width
            data[place] = ctypes.string_at(start, length)
            start += length
    return [data[place] for place in sorted(data)]


def spread(tensor: Any, count: int) -> Any:
    number = tensor.numel()
    step = max(1, number // count)
    extent = 1 + sum((size - 1) * by for size, by in zip(tensor.shape, tensor.stride()))
    if number == extent:  # it fills its memory, in whatever order
        return tensor.as_strided((min(number, count),), (step,), tensor.storage_offset())
    return tensor.reshape(-1)[::step][:count]


def checked(torch: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return a checksum of each parameter, and some of its values; of many, for groups of them."""
    data = pieces(torch, parameters, weights.MANY)
    width = -(-len(data) // MOST)
    sums = [zlib.crc32(b"".join(data[at : at + width])) for at in range(0, len(data), width)]
    each = max(1, weights.VALUES // len(sums))
    some = [spread(one.detach(), each).double().tolist() for one in parameters[::width]]
    return {"checksums": sums, "values": some}


def describe(torch: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return what there is to know of the parameters before they are read."""
    shapes = [(tuple(one.shape), str(one.dtype)) for one in parameters]
    on_gpu = parameters and parameters[0].device.type == "cuda"
    processor = torch.cuda.get_device_name(parameters[0].device) if on_gpu else cpu_model()
    return {
        "sharded": sharded(parameters),
        "shapes": zlib.crc32(repr(shapes).encode()),
        "processor": processor,
    }


def sharded(parameters: Sequence[Any]) -> str:
    """Return why a rank has only a part of the parameters, "" if it has all."""
    for one in parameters:
        if type(one).__name__ == "DTensor" or hasattr(one, "to_local"):
            return "the parameters are sharded (DTensor)"
        if getattr(one, "_fsdp_flattened", False):
            return "the parameters are sharded (FSDP)"
        if one.layout != sys.modules["torch"].strided or one.device.type == "meta":
            return f"a parameter is {one.layout}, on {one.device.type}"
    return ""


def details(optimizer: Any, parameters: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters' names, who is to have the same weights, and what tells a cause.

    Once for each optimizer: it looks at all objects of Python.
    """
    torch = sys.modules["torch"]
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    wrapper = parallel.DistributedDataParallel if parallel else ()
    modules, optimizers, averaged = [], [], False
    for one in gc.get_objects():
        kind = type(one)
        if issubclass(kind, torch.nn.Module):
            modules.append(one)
        elif issubclass(kind, torch.optim.Optimizer):
            optimizers.append(one)
        averaged = averaged or kind.__module__ == AVERAGERS
    names, own = names_in(modules), set(map(id, parameters))
    wrappers = [one for one in modules if wrapper and isinstance(one, wrapper)]
    ours = [one for one in wrappers if own & set(map(id, one.parameters()))]
    named = [names.get(id(one), f"parameter {at}")[:80] for at, one in enumerate(parameters)]
    report: dict[str, Any] = {
        "names": named[:: -(-len(named) // MOST)],
        "facts": {
            "wrapped": hasattr(optimizer, "_allreduce_delay"),
            "wrapped_others": any(hasattr(one, "_allreduce_delay") for one in optimizers),
            "ddp": len(wrappers),
            "ddp_ours": len(ours),
            "accelerate": "accelerate" in sys.modules,
        },
    }
    if names and parameters and not any(id(one) in names for one in parameters):
        report["sharded"] = "the optimizer's parameters are no model's (ZeRO, or copies of them)"
    if ranks := getattr(getattr(optimizer, "process_set", None), "ranks", None):
        report["group"] = list(ranks)  # of Horovod's
    for one in ours:
        ranks_of = sys.modules["torch.distributed"].get_process_group_ranks
        report["group"] = list(ranks_of(one.process_group))
        report["facts"]["ddp_ranks"] = len(report["group"])
        report["facts"]["ddp_used"] = bool(one._get_ddp_logging_data().get("iteration"))
        report["facts"]["no_sync"] = not one.require_backward_grad_sync
    report["may_differ"] = AVERAGED if averaged else beside_the_world()
    return report


def names_in(modules: Sequence[Any]) -> dict[int, str]:
    """Return the name of each parameter, as the outermost module has it."""
    children = {id(child) for one in modules for child in one._modules.values()}
    names: dict[int, str] = {}
    for root in modules:
        if id(root) not in children:
            for name, one in root.named_parameters():
                names.setdefault(id(one), name[7:] if name.startswith("module.") else name)
    return names


def beside_the_world() -> str:
    """Return why weights of ranks may differ: groups of a part of them, each with its layers."""
    core: Any = sys.modules.get("torch.distributed.distributed_c10d")
    groups = getattr(getattr(core, "_world", None), "pg_group_ranks", {}) if core else {}
    sizes = {len(one) for one in groups.values()}
    between = sorted(size for size in sizes if 1 < size < max(sizes, default=1))
    return f"there are process groups of {between[0]} of {max(sizes)} ranks" if between else ""
