"""Watches PyTorch's optimizers for the exchange check: checksums of parameters, now and then.

It uses the hooks of torch.optim (2.0 and later). The ranks exchange nothing more than before, and
none waits: checksums go to the shim.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import weakref
from collections.abc import Sequence
from types import FrameType
from typing import Any, Callable

from . import model_facts, weights
from .exchanges import Exchanges
from .parameters import captures, checked, checksum, describe, in_groups, version

LOSSES = 3
KEY = "_runner_training"
# Optimizers that are compared step by step; later ones, one after another, at their ends only.
TRACED = weights.OPTIMIZERS
COLLECTING = 0.05  # the most of the time that is spent on finding dead optimizers


class Training:
    """What is known of one optimizer. It holds the parameters until the optimizer is gone.

    `count` is what the ranks had exchanged before the last step, and `since` how many steps were
    made at that count; `first` was the count before the first one. `left` is a checksum after the
    last step, where nothing is known to average (`loose`); `replaced` are the steps before which
    the weights were others than that. `beside` are optimizers that had made steps before it, and
    how many, `within` those that have made none since; `follows` are those that are gone, and
    whose parameters it goes on to train.
    """

    def __init__(self, number: int, optimizer: Any, gone: Callable[[Training], None]) -> None:
        self.name, self.brief = f"torch {number}", number >= TRACED
        self.optimizer = weakref.ref(optimizer, lambda _: gone(self))
        self.groups = optimizer.param_groups
        self.steps, self.told, self.version = 0, -1, 0
        self.count: int | None = None
        self.first: int | None = None
        self.since = 0
        self.traces: dict[int, int] = {}
        self.moments: dict[int, tuple[int, int]] = {}
        self.loose, self.left = False, 0
        self.replaced: list[int] = []
        self.beside: dict[str, int] = {}
        self.within: dict[str, int] = {}
        self.follows: list[str] = []
        self.about: dict[str, Any] = {}

    def begin_step(self, count: int | None) -> None:
        self.steps += 1
        if count != self.count or self.steps == 1:
            self.count, self.since = count, 0
            if self.steps == 1:
                self.first = count
        self.since += 1

    @property
    def moment(self) -> tuple[int, int]:
        """The moment now, in numbers that mean the same on all ranks as far as possible."""
        return (-1, self.steps) if self.count is None else (self.count, self.since)

    @property
    def is_compared(self) -> bool:
        return weights.FIRST_COMPARED <= self.steps <= weights.LAST_TRACED and not self.brief


class Watch:
    """The watch of one process. `tell` sends the fields of a report; `torch` is the module."""

    def __init__(self, torch: Any, exchanges: Exchanges, tell: Callable[..., None]) -> None:
        self.torch, self.exchanges, self.tell = torch, exchanges, tell
        self.trainings: list[Training] = []
        self.over: list[Training] = []  # whose optimizers are gone; the last ones
        self.made, self.unwatched = 0, 0
        self.collected = 0.0  # when, the next time that it may be
        self.known: dict[int, dict[str, Any]] = {}  # details, by the parameters' shapes
        self.losses: list[float] = []
        self.inputs: list[int] = []
        self.depth = 0  # of steps within steps
        self.frame: FrameType | None = None  # of the outermost
        optimizers = sys.modules["torch.optim.optimizer"]
        if hasattr(optimizers, "register_optimizer_step_pre_hook"):
            optimizers.register_optimizer_step_pre_hook(self.before)
            optimizers.register_optimizer_step_post_hook(self.after)
            self._watch_losses()
            os.register_at_fork(after_in_child=self._forget)  # those are the parent's

    def _forget(self) -> None:
        self.trainings.clear()
        self.over.clear()

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
        """Read the weights before a step, if it is time to."""
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
        training.begin_step(self.exchanges.count())
        if training.is_compared or (training.steps == 1 and not training.brief):
            with weights.told_if_it_fails(self.tell, training.name, training.about):
                self._trace(training)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.depth = max(self.depth - 1, 0)
        if not self.depth:
            self.frame = None
            if training := optimizer.__dict__.get(KEY):
                training.groups = groups = optimizer.param_groups
                training.version = version(groups)
                if training.loose and training.is_compared and not captures(self.torch):
                    training.left = checksum(self.torch, in_groups(groups))

    def _is_within(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None

    def _begin(self, optimizer: Any) -> Training:
        training = Training(self.made, optimizer, self._gone)
        optimizer.__dict__[KEY] = training
        self.made += 1
        beside = {earlier.name: earlier.steps for earlier in self.trainings if earlier.steps}
        # Many of those are the inner loops of one training, which would be slowed down.
        if self._has_room() and not (training.brief and beside):
            training.beside = beside
            parameters = set(map(id, in_groups(training.groups)))
            parts = {ended.name: set(map(id, in_groups(ended.groups))) for ended in self.over}
            training.follows = [name for name, part in parts.items() if part and part <= parameters]
            self.trainings.append(training)
        else:
            self.unwatched += 1
            training.groups = []
        return training

    def _has_room(self) -> bool:
        """Whether one more can be watched, after Python has collected dead ones."""
        began = time.monotonic()
        if len(self.trainings) >= weights.OPTIMIZERS and began >= self.collected:
            gc.collect()
            now = time.monotonic()
            self.collected = now + (now - began) / COLLECTING
        return len(self.trainings) < weights.OPTIMIZERS

    def _gone(self, training: Training) -> None:
        """Report the last weights of an optimizer that is gone.

        Small models are kept and read again at the end: they may be averaged after that.
        """
        if training not in self.trainings:
            training.groups = []
            return
        self.trainings.remove(training)
        now = {current.name: current.steps for current in self.trainings}
        beside = training.beside.items()
        training.within = {name: steps for name, steps in beside if now.get(name) == steps}
        self._end(training, weights.END, gone=True)
        self.over.append(training)
        while len(self.over) > weights.OPTIMIZERS or self._bytes_kept() > weights.KEPT_BYTES:
            self.over.pop(0).groups = []

    def _bytes_kept(self) -> int:
        kept = (parameter for training in self.over for parameter in in_groups(training.groups))
        return sum(parameter.numel() * parameter.element_size() for parameter in kept)

    def _trace(self, training: Training) -> None:
        if training not in self.trainings or captures(self.torch):
            return
        parameters, step = in_groups(training.groups), training.steps
        if not training.about:
            training.about.update(describe(self.torch, parameters))
        if training.about["sharded"]:
            return
        training.traces[step] = checksum(self.torch, parameters)
        training.moments[step] = training.moment
        if training.left and training.left != training.traces[step]:
            training.replaced.append(step)
        if step in (weights.FIRST_COMPARED, weights.LAST_TRACED):
            if step == weights.FIRST_COMPARED:
                self._add_details(training, parameters)
            self._send(training, step, parameters)

    def _add_details(self, training: Training, parameters: Sequence[Any]) -> None:
        shapes = training.about["shapes"]
        if shapes not in self.known or not (training.brief or training.beside):
            objects = model_facts.Objects()
            self.known[shapes] = model_facts.details(objects, training.optimizer(), parameters)
            if not self.inputs:
                model_facts.note_inputs(objects, parameters, self.inputs)
        training.about.update(self.known[shapes])
        facts = training.about["facts"]
        training.loose = not facts["ddp_ours"] and not facts["wrapped"]

    def _send(self, training: Training, step: int, parameters: Sequence[Any], **more: Any) -> None:
        check = {} if training.about["sharded"] else checked(self.torch, parameters)
        traces, training.traces = training.traces, {}
        moments, training.moments = training.moments, {}
        self.tell(
            optimizer=training.name, step=step, traces=traces, moments=moments,
            losses=self.losses, inputs=self.inputs, layers=self.exchanges.layers,
            first=training.first, last=training.moment, loose=training.loose,
            replaced=training.replaced, **training.about, **check, **more,
        )  # fmt: skip

    def end(self) -> None:
        """Report the last weights."""
        for training in list(self.trainings):
            self._end(training, weights.END)
        while self.over:
            training = self.over.pop()
            training.told = -1
            self._end(training, weights.AFTER_END)
        if self.unwatched:
            self.tell(optimizer="", step=weights.END, unwatched=self.unwatched)

    def _end(self, training: Training, step: int, gone: bool = False) -> None:
        with weights.told_if_it_fails(self.tell, training.name, training.about):
            parameters = in_groups(training.groups)
            if training.told == training.steps or not parameters or captures(self.torch):
                return
            training.told = training.steps
            changed = version(training.groups) != training.version
            shapes, sharded = training.about.get("shapes"), training.about.get("sharded")
            training.about.update(describe(self.torch, parameters))
            training.about["sharded"] = training.about["sharded"] or sharded or ""
            # Of a model that may be gone, too, the old names are better than none.
            new = training.optimizer() is not None and training.about["shapes"] != shapes
            if (new or "names" not in training.about) and not training.about["sharded"]:
                self._add_details(training, parameters)
            self._send(
                training, step, parameters, steps=training.steps, changed=changed, gone=gone,
                beside=training.within, follows=training.follows,
            )  # fmt: skip
