"""The steps of a build, and what it shows while it works: lines, and phases that take long."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from runners.contract.log_text import human_size
from runners.core.progress import Progress

from . import process

WIDTH = 60  # of a log's last line
STEP_MEMORY = 2 * 10**9  # bytes that a step needs, beside others
Status = Callable[[], str]  # what is to be seen of a phase now; "", as of `str`, for its time alone


class BuildProgress(Progress):
    """Shows a build to people; this one shows nothing."""

    def phase(
        self, name: str, status: Status = str, usual: str = ""
    ) -> AbstractContextManager[None]:
        """Show what is done until it ends; `usual` is how long it takes. Phases may overlap."""
        return nullcontext()


@dataclass(frozen=True)
class BuildStep:
    """One result to make."""

    name: str
    needed: bool
    make: Callable[[], None]
    command: Callable[[], list[str]] = list  # the one that takes long, for people to read
    status: Status = str
    after: tuple[str, ...] | None = None  # the steps whose results it uses; all before it
    usual: int = 0  # seconds on two idle cores, 0 where nobody knows


def outline(steps: Sequence[BuildStep]) -> str:
    """What would be done, as comments, and the commands for it."""
    lines = []
    for number, step in enumerate(steps, start=1):
        nothing = "" if step.needed else ": nothing to do"
        lines.append(f"# [{number}/{len(steps)}] {step.name}{nothing}")
        lines += [shlex.join(step.command())] if step.needed else []
    return "\n".join(lines)


def run(steps: Sequence[BuildStep], shown: BuildProgress, workers: int = 1) -> None:
    """Make what is needed, each step once those before it are made. Raises RunnerError.

    Of `workers` steps at a time; when one fails, the commands of the others are ended.
    """
    before = [_before(steps, number) for number in range(len(steps))]
    done = {number for number, step in enumerate(steps) if not step.needed}
    for number in sorted(done):
        shown.say(f"{_title(steps, number)}: nothing to do")
    running: dict[Future[None], int] = {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            while len(done) < len(steps):
                started = {*done, *running.values()}
                ready = [n for n in range(len(steps)) if n not in started and before[n] <= done]
                for number in ready[: workers - len(running)]:
                    left = _seconds_left(steps, before, done)
                    running[pool.submit(_make, steps, number, left, shown)] = number
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    future.result()
                    done.add(running.pop(future))
        except BaseException:
            while wait(running, timeout=0).not_done:  # one may be about to start a command
                process.stop_all()
                wait(running, timeout=1)
            raise


def _make(steps: Sequence[BuildStep], number: int, left: int, shown: BuildProgress) -> None:
    step = steps[number]
    usual = f"usually {step.usual} s; about {left // 60 + 1} min left" if step.usual else ""
    with shown.phase(_title(steps, number), step.status, usual):
        step.make()


def _title(steps: Sequence[BuildStep], number: int) -> str:
    return f"[{number + 1}/{len(steps)}] {steps[number].name}"


def _before(steps: Sequence[BuildStep], number: int) -> set[int]:
    """Return the numbers of the steps that must be made before one."""
    named = steps[number].after
    return {n for n in range(number) if named is None or steps[n].name in named}


def _seconds_left(
    steps: Sequence[BuildStep], before: Sequence[Collection[int]], done: Collection[int]
) -> int:
    """Return the usual time of the longest way through what is not done."""
    ends: list[int] = []
    for number, step in enumerate(steps):
        start = max((ends[n] for n in before[number]), default=0)
        ends.append(start + (0 if number in done else step.usual))
    return max(ends, default=0)


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
