"""A run that goes on from a checkpoint, saves its work, and stops when it is asked to."""

from __future__ import annotations

import platform
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from recipes import __version__
from recipes.errors import EXIT_SAVED, NotSaved

from . import checkpoints, placement
from .abort import Stop, end_together, on_all_ranks
from .checkpoints import Checkpoints, Manifest, Payload
from .files import Sum
from .record import Progress, Record, now
from .steps import Loop, Position, Shards


class State(Protocol):
    """What a checkpoint holds of a framework's objects."""

    def signature(self) -> str:
        """Tell this model's weights from another's."""

    def gather(self) -> None:
        """Collect what each rank has of its own. Collective."""

    def write(self, path: Path) -> Sum:
        """Write everything to `path`, in one step; raise OSError. Rank 0 only."""

    def restore(self, payload: Any) -> str:
        """Take over what was written; return what could not be, in words."""


class SavedRun:
    """The output folder of a run, its checkpoints, and the signals that ask it to stop.

    `about` says what is trained on what. `unit` is what is counted per second: "samples" or
    "tokens", of which each sample has `each`. Every rank has one; only that of rank 0 prints or
    writes.
    Collective. Raises `UserError` if the output folder cannot be written.
    """

    def __init__(
        self, args: Namespace, hvd: Any, trainer: str, *, device: str, versions: dict[str, str],
        about: str, unit: str = "samples", each: int = 1,
    ) -> None:  # fmt: skip
        self.args, self.hvd, self.trainer, self.unit, self.each = args, hvd, trainer, unit, each
        self.speaks = hvd.rank() == 0
        own = {"recipes": __version__, "python": platform.python_version(), "numpy": np.__version__}
        there = sys.modules.get("horovod")  # some trainers do without
        self.versions = {**own, **versions, **({"horovod": there.__version__} if there else {})}
        self.folder = Path(args.output)
        self.checkpoints = Checkpoints(self.folder / "checkpoints", args.keep)
        self.places = placement.gather(hvd, device)
        self.stop = Stop()
        self.stop.listen()
        self.history: list[dict[str, Any]] = []  # what was recorded of each epoch
        self.resumed_at_steps: list[int] = []
        self.progress = Progress(0, 0, speaks=self.speaks)
        # Horovod: the folder may be one that rank 0 cannot write to, and then all ranks stop.
        self.record: Any = on_all_ranks(
            hvd, lambda: Record(self.folder, self.say) if self.speaks else None
        )
        if args.timeline:
            # Horovod: what each tensor waits for and when it is exchanged, by rank 0.
            hvd.start_timeline(str(self.folder / "timeline.json"))
        self.say(f"{trainer}: {about}, {len(self.places)} ranks")
        self.say(placement.banner(self.places))

    def say(self, text: str) -> None:
        """Print a line of progress, once for all ranks."""
        self.progress.say(text)

    def begin(self, state: State, shards: Shards) -> None:
        """Go on from a checkpoint, with `state` restored, or begin, as `--resume` says.

        Rank 0 reads; the others need not see the folder. Collective. All ranks stop with a
        message if `--resume` names what cannot be used.
        """
        self.signature, self.state = state.signature(), state
        # Horovod: every rank takes part in telling an error, though only rank 0 can have one.
        found = on_all_ranks(self.hvd, lambda: self._find(shards) if self.speaks else None)
        found = self.hvd.broadcast_object(found, root_rank=0, name="checkpoint")
        position = Position() if found is None else self._take_over(*found)
        self.loop = Loop(shards, position, self.args.epochs, self.args.max_steps)
        self.progress = Progress(self.loop.step, self.loop.last_step, speaks=self.speaks)

    def _find(self, shards: Shards) -> tuple[Manifest, Payload] | None:
        found = checkpoints.find(
            self.args.resume, self.checkpoints, self.trainer, self.signature, self.say
        )
        if found is None:
            self.record.metrics.begin()
            return None
        checkpoints.require_same_order(found[0], shards)
        checkpoints.require_steps_left(found[0].position, self.args)
        self.record.metrics.go_on(found[0].position)
        return found

    def _take_over(self, manifest: Manifest, payload: Payload) -> Position:
        position = manifest.position
        lost = self.state.restore(payload)
        self.history = [e for e in manifest.history if e["epoch"] < position.epoch]
        self.resumed_at_steps = [*manifest.resumed_at_steps, position.step]
        self.say(f"resumed at step {position.step}, epoch {position.epoch}")
        for change in checkpoints.changes(manifest, vars(self.args), len(self.places)):
            self.say(f"  changed since: {change}")
        if lost:
            self.say(f"  {lost}")
        if self.speaks:
            self.record.add("resume", {"step": position.step, "ranks": len(self.places)})
        return position

    def save_within_epoch(self, loss_sum: float, *, stop: bool) -> None:
        """Save within an epoch, whose losses so far are `loss_sum`; end with `stop`. Collective."""
        position = self.loop.position(loss_sum, self.loop.seconds())
        if stop:
            self._stop_early(position)
        self._save(position)

    def save_after_epoch(self, position: Position) -> None:
        """Save after an epoch if it is time to, or if all stop. Collective."""
        # Horovod: the signal may have reached one rank only.
        if any(self.hvd.allgather_object(bool(self.stop), name="stop")) and self.loop.more:
            self._stop_early(position)
        every: int = self.args.checkpoint_every
        if not every or self.loop.step % every == 0 or not self.loop.more:
            self._save(position)

    def _save(self, position: Position) -> bool:
        """Save a checkpoint; a full disk is told, and the older ones stay whole. Collective.

        Returns whether it was saved, the same on every rank.
        """
        self.state.gather()
        problem = self._write(position) if self.speaks else ""
        problem = self.hvd.broadcast_object(problem, root_rank=0, name="saved")
        if problem:
            self.say(f"warning: no checkpoint of step {position.step}: {problem}")
        return not problem

    def _write(self, position: Position) -> str:
        manifest = Manifest(
            self.trainer, self.signature, position, self.loop.shards.count, len(self.places),
            vars(self.args), self.versions, self.history, self.resumed_at_steps, time=now(),
        )  # fmt: skip
        try:
            self.checkpoints.save(manifest, self.state.write)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _stop_early(self, position: Position) -> NoReturn:
        """Save, tell why, and end all ranks. Collective."""
        saved = self._save(position)
        # Horovod: the signal may have reached one rank only.
        signals = self.hvd.allgather_object(self.stop.signal, name="signals")
        why = next((name for name in signals if name), "request")
        if not saved:
            text = (
                f"error: stopped on {why} after step {position.step}, and its checkpoint could not "
                "be saved; the one before is whole"
            )
            end_together(self.hvd, text if self.speaks else "", NotSaved.exit_code)
        self.end_timeline()
        if self.speaks:
            self.record.add("stop", {"step": position.step, "signal": why})
            self.record.close()
        self.say(f"stopped on {why} after step {position.step}; a checkpoint is saved")
        self.say(f"go on: --resume {self.folder}")
        end_together(self.hvd, "", EXIT_SAVED)

    def end_timeline(self) -> None:
        """End what `--timeline` asked for."""
        if self.args.timeline:
            # Horovod: without it the file lacks its end, and no viewer reads it.
            self.hvd.stop_timeline()
