"""A job that is followed, at this terminal: lines or a bar; Ctrl-C asks what to do."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, TypeVar

import click

from ...core.command_signals import Interrupted
from ...core.job_record import Job, JobPaths, Status
from ...monitoring import follow, run_group
from ...monitoring.follow import Follower, Screen
from ...monitoring.job_log import last, step_of
from .. import printer, progress
from . import job_end

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

WIDE = 140  # columns from which there is room for more than the trainer's own line

INTERRUPTED = 130
Result = TypeVar("Result")


def to_the_end(
    paths: JobPaths,
    job: Job,
    ranks: Collection[int] | None,
    stall_after: int | None = None,
    tail: int | None = None,
) -> Status:
    """Show a job until it ends, the log lines of these ranks (None: of all); return how it ended.

    After `stall_after` seconds without a step (None: as
    configured) it says which ranks lag. Of what is in the log already it shows the last `tail`
    lines (None: all).
    """
    follower = Follower(paths, job, ranks, stall_after)
    if tail is not None:
        Plain().show(last(follower.log, ranks, tail))

    def show() -> Status:
        with screen() as shown:
            return follower.to_the_end(shown)

    return attended(paths, job, show)


def waited(paths: JobPaths, job: Job) -> Status:
    """Wait for a job's end silently; return how it ended."""
    return attended(paths, job, lambda: follow.wait(paths, job))


def attended(paths: JobPaths, job: Job, work: Callable[[], Result], back: str = "") -> Result:
    """Do what takes as long as the job; with Ctrl-C the user may leave it, cancel it or go on.

    Who leaves it leaves the command. `back` is the one that comes back to the job.
    """
    back = back or f"runner logs --follow {job.id}"
    left = f"left job {job.id}, which goes on; come back: {back}; end it: runner cancel {job.id}"
    while True:
        try:
            return work()
        except Interrupted:
            printer.tell(left)
            raise
        except KeyboardInterrupt:
            answer = _asked(job)
            if answer == "d":
                printer.tell(left)
                raise click.exceptions.Exit(INTERRUPTED) from None
            if answer == "c" and run_group.cancel([(paths, job)]):
                job_end.tell_cancelled(job)


def _asked(job: Job) -> str:
    """Ask on a terminal; without one nobody answers, and the job is left."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "d"
    text = f"\nrunner: job {job.id} goes on. [d] leave it  [c] cancel it  [Enter] follow on: "
    click.echo(text, nl=False, err=True)
    try:
        key = click.getchar().lower()
    except (KeyboardInterrupt, EOFError):
        key = "d"
    click.echo(err=True)
    return key


@contextmanager
def screen() -> Iterator[Plain]:
    if not progress.watched():
        yield Plain()
        return
    from rich.progress import BarColumn, SpinnerColumn

    what = progress.column(lambda task: str(task.fields["what"]))
    more = progress.column(lambda task: str(task.fields["more"]))
    bar = BarColumn()
    with progress.bars(SpinnerColumn(), what, bar, more) as bars:
        bar.bar_width = 20 if bars.console.width >= WIDE else 12
        yield Terminal(bars)


class Plain(Screen):
    """Lines as they come: the job's own to stdout, ours to stderr."""

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def show(self, lines: list[bytes]) -> None:
        if lines:
            click.echo(b"\n".join(lines))


class Terminal(Plain):
    """A bar below the lines, which becomes one with steps when the trainer tells of them."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.task = bars.add_task("", total=None, what="", more="")

    def say(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, lines: list[bytes]) -> None:
        """Print lines of the job's log above the bar, or to where stdout leads."""
        if not sys.stdout.isatty():
            super().show(lines)
        elif lines:
            self.say(b"\n".join(lines).decode("utf-8", "replace"))

    def at(self, line: bytes) -> bool:
        told = step_of(line)
        if told is None:
            return False
        step, steps, more = told
        self.bars.update(self.task, completed=step, total=steps, more=f"{step}/{steps}  {more}")
        return sys.stdout.isatty()

    def refresh(self, long: str, short: str) -> None:
        """Turn the spinner; on a narrow screen a trainer's line leaves no room for many words."""
        total = self.bars.tasks[0].total
        room = total is None or self.bars.console.width >= WIDE
        self.bars.update(self.task, what=long if room else short, refresh=True)
