"""Whether a checkpoint fits what is asked for now, and what has changed since."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from recipes.errors import UserError

from .checkpoints import Manifest, Position
from .shards import Shards


def require_steps_left(position: Position, args: Namespace) -> None:
    """Raise `UserError` when nothing is left to do."""
    done = {"epochs": position.epoch - 1, "max_steps": position.step}
    for name, reached in done.items():
        limit, option = getattr(args, name), "--" + name.replace("_", "-")
        if limit is not None and reached >= limit:
            raise UserError(
                f"nothing is left to do: the checkpoint has {position.step} steps, "
                f"{position.epoch - 1} whole epochs; give more than {option} {limit}"
            )


def require_same_order(manifest: Manifest, shards: Shards) -> None:
    """Raise `UserError` for another order of samples in the middle of an epoch.

    It would show some samples twice and others never.
    """
    if manifest.position.taken == 0:
        return
    counts = ("samples", manifest.count, shards.count)
    seeds = ("--seed", manifest.arguments.get("seed"), shards.seed)
    for name, before, given in (counts, seeds):
        if before != given:
            raise UserError(
                f"the checkpoint is from the middle of epoch {manifest.position.epoch} with "
                f"{name} {before}, and now it is {given}: give the same to go on"
            )


def changes(before: Manifest, now: dict[str, Any], world_size: int) -> list[str]:
    """Say which settings differ from those of the checkpoint, as `name: old -> new`."""
    ignored = {"output", "resume", "keep", "profile", "timeline", "log_interval"}
    pairs: list[tuple[str, Any, Any]] = [("ranks", before.world_size, world_size)]
    pairs += [
        (name, before.arguments.get(name), value)
        for name, value in now.items()
        if name not in ignored
    ]
    return [f"{name}: {old} -> {new}" for name, old, new in pairs if old != new]
