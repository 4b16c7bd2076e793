"""The steps of a build, and what it shows while it works: lines, and phases that take long."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from runners.core.progress import Progress
from runners.core.text import human_size

WIDTH = 60  # of a log's last line
Status = Callable[[], str]  # what is to be seen of a phase now; "", as of `str`, for its time alone


class BuildProgress(Progress):
    """Shows a build to people; this one shows nothing."""

    def phase(self, name: str, status: Status = str) -> AbstractContextManager[None]:
        """Show what is done until it ends."""
        return nullcontext()


@dataclass(frozen=True)
class BuildStep:
    """One result to make."""

    name: str
    needed: bool
    make: Callable[[], None]
    command: Callable[[], list[str]] = list  # the one that takes long, for people to read
    status: Status = str


def outline(steps: Sequence[BuildStep]) -> str:
    """What would be done, as comments, and the commands for it."""
    lines = []
    for number, step in enumerate(steps, start=1):
        nothing = "" if step.needed else ": nothing to do"
        lines.append(f"# [{number}/{len(steps)}] {step.name}{nothing}")
        lines += [shlex.join(step.command())] if step.needed else []
    return "\n".join(lines)


def run(steps: Sequence[BuildStep], shown: BuildProgress) -> None:
    """Make what is needed, in order. Raises RunnerError."""
    for number, step in enumerate(steps, start=1):
        name = f"[{number}/{len(steps)}] {step.name}"
        if not step.needed:
            shown.say(f"{name}: nothing to do")
            continue
        with shown.phase(name, step.status):
            step.make()


def last_line(log: Path) -> str:
    """The last line of a log that has something to read, cut to fit; "" without one."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:WIDTH] if lines else ""


def fetched(folder: Path) -> str:
    """The size of what is being downloaded for `folder`, which `atomic.new_folder` makes.

    pip writes each file into a temporary folder first; a file that is in both counts once.
    """
    sizes: dict[str, int] = {}
    with suppress(OSError):  # pip has just moved it
        for path in folder.parent.glob(f".{folder.name}.*/**/*"):
            if path.is_file():
                sizes[path.name] = max(sizes.get(path.name, 0), path.stat().st_size)
    return f"{human_size(sum(sizes.values()))} fetched"
