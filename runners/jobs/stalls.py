"""Stalled jobs: no step or line for too long, ranks that lag, and time that is too short. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import rank_samples
from .metrics_tail import Reading
from .rank_samples import RankSample

SECONDS = 300  # without a step, by default
STEPS_FOR_A_PACE, SLACK = 10, 1.2  # the pace of a few steps is known roughly
# Horovod's stall inspector (0.28, stall_inspector.cc), after HOROVOD_STALL_CHECK_TIME_SECONDS, 60:
# `Missing ranks:`, then a line for each, `1: [gradient.weight, ...]`
TITLE = "Missing ranks:"
MISSING = re.compile(r"^(?:\d+@\S+ \| )?\s*(\d+): \[(.*)\]\s*$")
INSPECTOR = "stall_inspector.cc"
WAITED = re.compile(r"for more than (\d+) seconds")
# NCCL's RAS (2.24 to 2.30, src/ras/client_support.cc): details, below titles and in front of where
# the rank is, ` -- GPU 1 managed by process 41 on node 10.0.0.2`
RAS_TITLE, RAS_FILE = "\nErrors\n", "nccl-ras.txt"
RAS_DETAIL = re.compile(r"^  (?!Process |Encountered )(.+?)(?: -- .*)?$", re.MULTILINE)
RAS_DETAILS = 8  # to tell


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
    """A stall: seconds since the last progress, and who does what, in words.

    `missed` are ranks that Horovod names and nobody else does; `ras` is what NCCL tells.
    """

    seconds: float
    step: int | None
    who: str
    missed: tuple[int, ...] = ()
    ras: str = ""


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
        if not (INSPECTOR in text or TITLE in text or MISSING.match(text)):
            break
        size -= len(line)
        waited = WAITED.search(text)
        written -= int(waited[1]) if waited else 0
    return LastProgress(None, size, written)


def of_ranks(
    seconds: float,
    step: int | None,
    tail: Sequence[str],
    samples: Sequence[RankSample],
    ras: str = "",
) -> Stall:
    """Return a stall with who lags, by the log's last lines and by what was seen of each rank.

    `ras` is the answer of NCCL's RAS.
    """
    seen = {one.rank for one, _ in rank_samples.blamed(samples)}
    missed = tuple(rank for rank in missing(tail) if rank not in seen)
    unknown = "no rank differs from the others" if samples else "its nodes did not answer"
    who = rank_samples.in_words(samples) or unknown
    return Stall(seconds, step, who, missed, _of_ras(ras))


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
    titles = [at for at, line in enumerate(tail) if TITLE in line]
    ranks: list[int] = []
    for line in tail[titles[-1] + 1 :] if titles else ():
        match = MISSING.match(line)
        if not match:
            break
        ranks.append(int(match.group(1)))
    return ranks


def _of_ras(answer: str) -> str:
    """Return which ranks NCCL does not hear of, or sees behind, in its own words."""
    _, title, text = answer.partition(RAS_TITLE)
    if not title:
        return ""
    details = list(dict.fromkeys(RAS_DETAIL.findall(text)))
    lines = details[:RAS_DETAILS]
    if len(details) > RAS_DETAILS:
        lines.append(f"{len(details) - RAS_DETAILS} more lines in {RAS_FILE}")
    return "; ".join(lines) or "no rank is missing or behind"


def in_words(stall: Stall) -> str:
    minutes, seconds = divmod(round(stall.seconds), 60)
    since = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    what = "no new line" if stall.step is None else "no step"
    last = "" if stall.step is None else f" (the last one: {stall.step})"
    missed = [f"Horovod misses rank {rank}" for rank in stall.missed]
    ras = [f"NCCL's RAS: {stall.ras}"] if stall.ras else []
    return f"{what} for {since}{last}: " + "; ".join([stall.who, *missed, *ras])
