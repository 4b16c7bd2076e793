"""Follows a job to its end: its place in the queue, its log, how far it is. Ctrl-C asks."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import click

from ..core import job_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.signals import Interrupted
from ..jobs import job_status
from ..jobs.logs import Log, concerns, last, rank_of, says_end
from ..schedulers import SCHEDULERS
from . import printer, progress
from .stall_notice import Stalls

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

# Any trainer that prints such lines has a bar: `  step 100/368  epoch 5  loss 0.1  0:04 left`.
PROGRESS = re.compile(rb"^(?:\d+@\S+ \| )?\s*step (\d+)/(\d+)\b\s*(.*)$")
WIDE = 140  # columns from which there is room for more than the trainer's own line

SECONDS_BETWEEN_PLACES = 30.0  # in the queue: Slurm is asked for all that wait
INTERRUPTED = 130


def to_the_end(
    paths: JobPaths,
    job: Job,
    ranks: Collection[int] | None,
    stall_after: int | None = None,
    tail: int | None = None,
) -> Status | None:
    """Show a job until it ends, the log lines of these ranks (None: of all); return how it ended.

    None when the user left it, with Ctrl-C. After `stall_after` seconds without a step (None: as
    configured) it says which ranks lag. Of what is in the log already it shows the last `tail`
    lines (None: all).
    """
    follower = Follower(paths, job, ranks, Stalls(paths, job, stall_after))
    if tail is not None:
        Plain().show(last(follower.log, ranks, tail))
    return attended(paths, job, follower.to_the_end)


def waited(paths: JobPaths, job: Job) -> Status | None:
    """Wait for a job's end without a word; return how it ended, or None when the user left it."""

    def wait() -> Status:
        *_, status = job_status.until_end(paths, job)
        return status

    return attended(paths, job, wait)


class Follower:
    """What has been shown of a job so far, so that one can go on after an interruption."""

    def __init__(
        self, paths: JobPaths, job: Job, ranks: Collection[int] | None, stalls: Stalls
    ) -> None:
        self.paths, self.job, self.ranks, self.stalls = paths, job, ranks, stalls
        self.log, self.told, self.explained = Log(Path(job.log)), "", False
        self.place, self.asked = "", -SECONDS_BETWEEN_PLACES

    def to_the_end(self) -> Status:
        """Show the log as it grows and the state as it changes; return the last state."""
        with screen() as shown:
            for now in job_status.until_end(self.paths, self.job):
                self._tell(shown, now)
                self._pass_on(shown)
                if stalled := self.stalls.news(now):
                    shown.say(f"runner: job {self.job.id}: {stalled}")
            shown.show([x for x in (self.log.rest,) if x and concerns(x, self.ranks)])
        return now

    def _tell(self, shown: Plain, now: Status) -> None:
        """Say what has changed; what changes all the time is only beside the bar."""
        text = f"runner: job {self.job.id}: {printer.describe(now, self.job.restarts)}"
        if now.state == JobState.PENDING:
            text += self._queued()
        if text != self.told:
            shown.say(text)
            self.told = text
        shown.refresh(beside(self.job, now), f"job {self.job.id}")

    def _queued(self) -> str:
        """Return the place in the queue in words; "" while nobody knows it."""
        if time.monotonic() - self.asked >= SECONDS_BETWEEN_PLACES:
            self.asked = time.monotonic()
            try:
                self.place = in_words(job_status.ahead(self.job))
            except SystemFault:  # the state says so too
                self.place = ""
        return self.place

    def _pass_on(self, shown: Plain) -> None:
        for lines in self.log.new():
            mine = [x for x in lines if not shown.at(x) and concerns(x, self.ranks)]
            if not self.explained and any(rank_of(x) is not None for x in mine):
                self.explained = True
                shown.say("runner: lines begin with rank@host")
            shown.show([x for x in mine if not (says_end(x) and self._recorded())])

    def _recorded(self) -> bool:
        """Whether a rank left a record of its failure: what Slurm says of it tells no more."""
        return next(self.paths.failures.glob("rank-*.json"), None) is not None


def in_words(ahead: int | None) -> str:
    if ahead is None:
        return ""
    return f"; {ahead} job{'s' * (ahead != 1)} before it" if ahead else "; none before it"


def beside(job: Job, now: Status) -> str:
    """Return the state with its times, for beside the bar."""
    text = f"job {job.id} {now.state.value}"
    if now.state == JobState.PENDING and now.start:
        return f"{text}, to start at {printer.moment(now.start, time.time())} or before"
    if now.nodes and not now.state.ended:
        text += f" on {now.nodes}"
    return text + (f", {printer.span(now.left)} to its limit" if now.left and now.elapsed else "")


def attended(
    paths: JobPaths, job: Job, work: Callable[[], Status], back: str = ""
) -> Status | None:
    """Do what takes as long as the job; with Ctrl-C the user may leave it, cancel it or go on.

    `back` is the command that comes back to it.
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
                return None
            if answer == "c":
                cancel(paths, job)


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


def cancel(paths: JobPaths, job: Job) -> None:
    """Cancel a job and write that down; raise SystemFault when its scheduler does not."""
    SCHEDULERS[job.scheduler].cancel(job.id)
    replace(job_record.load(paths), state=JobState.CANCELLED.name).save(paths)
    click.echo(f"job {job.id} cancelled", err=True)


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


class Plain:
    """Lines as they come: the job's own to stdout, ours to stderr."""

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def show(self, lines: list[bytes]) -> None:
        if lines:
            click.echo(b"\n".join(lines))

    def at(self, line: bytes) -> bool:
        """Take a line that tells how far the job is; return whether it need not be printed."""
        return False

    def refresh(self, what: str, short: str) -> None:
        """Show that time passes, and how the job stands, in many words or few."""


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
        found = PROGRESS.match(line)
        if found is None:
            return False
        step, steps, more = int(found[1]), int(found[2]), found[3].decode("utf-8", "replace")
        self.bars.update(self.task, completed=step, total=steps, more=f"{step}/{steps}  {more}")
        return sys.stdout.isatty()

    def refresh(self, what: str, short: str) -> None:
        """Turn the spinner; on a narrow screen a trainer's line leaves no room for many words."""
        total = self.bars.tasks[0].total
        room = total is None or self.bars.console.width >= WIDE
        self.bars.update(self.task, what=what if room else short, refresh=True)
