"""The steps of a build: which are needed, what they would run, and running them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .progress import Progress, Status, unknown


@dataclass(frozen=True)
class Step:
    """One result to make."""

    name: str
    needed: bool
    make: Callable[[], None]
    command: Callable[[], list[str]]  # the one that takes long, for people to read
    status: Status = unknown


def outline(steps: Sequence[Step]) -> str:
    """What would be done, as comments, and the commands for it."""
    lines = []
    for number, step in enumerate(steps, start=1):
        nothing = "" if step.needed else ": nothing to do"
        lines.append(f"# [{number}/{len(steps)}] {step.name}{nothing}")
        lines += [shlex.join(step.command())] if step.needed else []
    return "\n".join(lines)


def run(steps: Sequence[Step], progress: Progress) -> None:
    """Make what is needed, in order. Raises RunnerError."""
    for number, step in enumerate(steps, start=1):
        name = f"[{number}/{len(steps)}] {step.name}"
        if not step.needed:
            progress.say(f"{name}: nothing to do")
            continue
        with progress.phase(name, step.status):
            step.make()
