"""Reports of PyTorch's optimizers: what their parameters are, before steps and at the end.

By the hooks that torch.optim offers (2.0 and later). Nothing is added to what the ranks say to each
other, and none waits: checksums go to the shim.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
import zlib
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Callable

from .torch_weights import FEW, captures, checked, describe, details, pieces
from .weights import END, FIRST_COMPARED, LAST_TRACED

OPTIMIZERS = 16  # that are watched; more are made by who steps each parameter on its own
KEPT_BYTES = 1 << 28  # of parameters that are kept until the end, though their optimizer is gone
LOSSES = 3
KEY = "_runner_training"


class Training:
    """One optimizer's: it holds the parameters of small models only."""

    def __init__(self, number: int, optimizer: Any) -> None:
        self.name, self.optimizer = f"torch {number}", weakref.ref(optimizer)
        parameters = parameters_of(optimizer)
        size = sum(one.numel() * one.element_size() for one in parameters)
        self.kept = parameters if size < KEPT_BYTES else None
        self.steps, self.told = 0, -1
        self.version = 0
        self.traces: dict[int, int] = {}
        self.about: dict[str, Any] = {}

    def parameters(self) -> Sequence[Any]:
        optimizer = self.optimizer()
        return parameters_of(optimizer) if optimizer is not None else self.kept or ()


def parameters_of(optimizer: Any) -> list[Any]:
    seen: dict[int, Any] = {}
    for group in optimizer.param_groups:
        for one in group["params"]:
            seen.setdefault(id(one), one)
    return list(seen.values())


class Watch:
    """One process's. `tell` sends the fields of a report; `torch` is the module."""

    def __init__(self, torch: Any, tell: Callable[..., None]) -> None:
        self.torch, self.tell = torch, tell
        self.trainings: list[Training] = []
        self.losses: list[float] = []
        self.depth = 0  # of steps within steps
        self.frame: FrameType | None = None  # of the outermost
        self._install()

    def _install(self) -> None:
        optimizers = sys.modules["torch.optim.optimizer"]
        if not hasattr(optimizers, "register_optimizer_step_pre_hook"):
            return
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
        if training.steps == 1 or FIRST_COMPARED <= training.steps <= LAST_TRACED:
            with self._told_if_it_fails(training):
                self._trace(training)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.depth = max(self.depth - 1, 0)
        if not self.depth:
            self.frame = None
            training = optimizer.__dict__.get(KEY)
            if training is not None:
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
        if len(self.trainings) < OPTIMIZERS:
            self.trainings.append(training)
        return training

    @contextlib.contextmanager
    def _told_if_it_fails(self, training: Training) -> Iterator[None]:
        """Say in the verdict that the check failed: the training is right as it is."""
        try:
            yield
        except Exception as error:
            reason = f"the check failed ({type(error).__name__}: {error})"[:200]
            training.about = {"sharded": reason}
            self.tell(optimizer=training.name, step=END, traces={}, losses=[], sharded=reason)

    def _trace(self, training: Training) -> None:
        if training not in self.trainings or captures(self.torch):
            return
        parameters, step = training.parameters(), training.steps
        if not training.about:
            training.about = describe(self.torch, parameters)
        if training.about["sharded"]:
            return
        training.traces[step] = zlib.crc32(b"".join(pieces(self.torch, parameters, FEW)))
        if step in (FIRST_COMPARED, LAST_TRACED):
            if step == FIRST_COMPARED:
                training.about.update(details(training.optimizer(), parameters, training.about))
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
        with self._told_if_it_fails(training):
            self._report_last(training)

    def _report_last(self, training: Training) -> None:
        parameters = training.parameters()
        if training.told == training.steps or not parameters:
            return
        training.told = training.steps
        changed = version(parameters) != training.version
        training.about = training.about or describe(self.torch, parameters)
        if training.steps < FIRST_COMPARED and not training.about["sharded"]:
            training.about.update(details(training.optimizer(), parameters, training.about))
        self._send(training, END, parameters, steps=training.steps, changed=changed)


def version(parameters: Sequence[Any]) -> int:
    """Return a number that changes as the first and the last of the parameters do."""
    return sum(parameters[at]._version for at in (0, -1)) if parameters else 0
