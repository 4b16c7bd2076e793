"""Stalled jobs: no step or line for too long, ranks that lag, and time that is too short. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..contract.log_text import harmless
from ..explain.lost_ranks import LABELLED_MISSING_RANK, MISSING_RANKS
from ..jobs.metrics_tail import Reading
from . import rank_samples
from .rank_samples import RankSample, TableRow

SECONDS = 300  # without a step, by default
STEPS_FOR_A_PACE, SLACK = 10, 1.2  # the pace of a few steps is known roughly
# Of Horovod's stall inspector, which tells of missing ranks
INSPECTOR = "stall_inspector.cc"
WAITED = re.compile(r"for more than (\d+) seconds")
# NCCL's RAS (2.24 to 2.30, src/ras/client_support.cc): details, below titles and in front of where
# the rank is, ` -- GPU 1 managed by process 41 on node 10.0.0.2`
RAS_TITLE, RAS_FILE = "\nErrors\n", "nccl-ras.txt"
RAS_DETAIL = re.compile(r"^  (?!Process |Encountered )(.+?)(?: -- .*)?$", re.MULTILINE)
RAS_DETAILS = 8  # to tell
HEADERS = ("", "rank", "host", "state", "file", "line", "call")
ROWS = 8  # of the table
LABEL = re.compile(r"\d+@\S+ \| ")  # of a rank's line
# How a stall ends without progress: `*** STEP 7.0 ON n1 CANCELLED AT ... ***`, torchrun's
# `Received 15 death signal` and `Sending process 7 closing signal`, what a rank says of another one
# that ended first (PyTorch's TCPStore.cpp: `[c10d] sendBytes failed on SocketImpl(...): Broken
# pipe`), or an error
ENDED = re.compile(
    r" CANCELLED AT |(?:death|closing) signal|Traceback \(most recent|[Ww]atchdog|[Tt]imed? ?out"
    r"|\[c10d\] .*failed|Connection (?:reset|closed) by |Broken pipe"
)


@dataclass(frozen=True)
class LastProgress:
    """The last sign of progress: a step of the trainer's metrics, else a line of the job's log.

    `line` is the place in the log after that line, `time` is Unix's.
    """

    step: int | None
    line: int
    time: float


@dataclass(frozen=True)
class Stall:
    """A stall: seconds since the last progress, which is that of `step` or of `line`.

    `who` says which ranks did not come, `rows` where each is. `missed` are ranks that Horovod names
    and nobody else does; `ras` is what NCCL tells.
    """

    seconds: float
    step: int | None
    who: str
    line: int = 0
    rows: tuple[TableRow, ...] = ()
    missed: tuple[int, ...] = ()
    ras: tuple[str, ...] = ()


def progress(
    reading: Reading | None, tail: Sequence[bytes], size: int, written: float
) -> LastProgress:
    """Return the last progress of a job whose log has `size` bytes and was `written` then.

    `tail` are the log's last lines, with their ends. What Horovod's stall inspector repeats at the
    end is no progress.
    """
    if reading is not None:
        return LastProgress(reading.step, 0, reading.time)
    for line in reversed(tail):
        text = line.decode("utf-8", "replace").rstrip()
        if not _is_inspectors(text):
            break
        size -= len(line)
        waited = WAITED.search(text)
        written -= int(waited[1]) if waited else 0
    return LastProgress(None, size, written)


def _is_inspectors(line: str) -> bool:
    return INSPECTOR in line or MISSING_RANKS in line or bool(LABELLED_MISSING_RANK.match(line))


def of_ranks(
    seconds: float,
    last: LastProgress,
    tail: Sequence[str],
    samples: Sequence[RankSample],
    ras: str = "",
) -> Stall:
    """Return a stall with who lags, by the log's last lines and by what was seen of each rank.

    `ras` is the answer of NCCL's RAS.
    """
    seen = {sample.rank for sample in rank_samples.late(samples)}
    return Stall(
        seconds,
        last.step,
        rank_samples.verdict(samples),
        last.line,
        tuple(rank_samples.table(samples)),
        tuple(rank for rank in missing(tail) if rank not in seen),
        _of_ras(ras),
    )


def read(value: Mapping[str, Any]) -> Stall:
    """Return a stall that was written as JSON. Raises what a damaged record raises."""
    rows = tuple(TableRow(**row) for row in value["rows"])
    lists = {name: tuple(value[name]) for name in ("missed", "ras")}
    stall = Stall(**{**value, **lists, "rows": rows})
    in_words(stall), table(stall)  # a record of another user's may hold anything
    return stall


def short_of_time(first: Reading, latest: Reading, left: float | None) -> float | None:
    """Return the seconds that a run needs for the steps that remain, if `left` are too few.

    By the pace between two readings, of which the first may be right after the start.
    """
    if left is None or latest.steps is None or latest.step - first.step < STEPS_FOR_A_PACE:
        return None
    pace = (latest.time - first.time) / (latest.step - first.step)
    needed = pace * (latest.steps - latest.step)
    return needed if needed > SLACK * left else None


def missing(tail: Sequence[str]) -> list[int]:
    """Return the ranks that Horovod's stall inspector named last, as far as these lines tell."""
    titles = [at for at, line in enumerate(tail) if MISSING_RANKS in line]
    ranks: list[int] = []
    for line in tail[titles[-1] + 1 :] if titles else ():
        match = LABELLED_MISSING_RANK.match(line)
        if not match:
            break
        ranks.append(int(match.group(1)))
    return ranks


def went_on(stall: Stall, log: bytes) -> bool:
    """Whether ranks wrote more after a stall without steps; `log` is what came after its line.

    What they write when Slurm, or an error such as NCCL's timeout, ends them does not count.
    """
    for line in log.decode("utf-8", "replace").splitlines():
        if ENDED.search(line):
            return False
        if LABEL.match(line) and not _is_inspectors(line):
            return True
    return False


def _of_ras(answer: str) -> tuple[str, ...]:
    """Return which ranks NCCL does not hear of, or sees behind, in its own words."""
    _, title, text = answer.partition(RAS_TITLE)
    if not title:
        return ()
    details = list(dict.fromkeys(RAS_DETAIL.findall(text)))
    lines = details[:RAS_DETAILS]
    if len(details) > RAS_DETAILS:
        lines.append(f"{len(details) - RAS_DETAILS} more lines in {RAS_FILE}")
    return tuple(lines) or ("no rank is missing or behind",)


def in_words(stall: Stall) -> str:
    """Return the first line: for how long, and which ranks did not come."""
    minutes, seconds = divmod(round(stall.seconds), 60)
    since = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    silence = "no new line" if stall.step is None else "no step"
    last = "" if stall.step is None else f" (the last one: {stall.step})"
    missed = [f"Horovod misses rank {rank}" for rank in stall.missed]
    return f"{silence} for {since}{last}: " + "; ".join([stall.who, *missed])


def table(stall: Stall) -> list[str]:
    """Return the lines below the first: where each rank is, those that did not come with `>`."""
    rows = [[">" if row.late else "", *row[1:]] for row in stall.rows[:ROWS]]
    cells = [[harmless(cell) for cell in row] for row in ([HEADERS, *rows] if rows else [])]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    if len(stall.rows) > ROWS:
        lines.append(f"and {len(stall.rows) - ROWS} more places: the run's folder stacks")
    return [*lines, *(f"NCCL's RAS: {harmless(line)}" for line in stall.ras)]
