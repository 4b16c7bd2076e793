"""Stalled jobs: detects missing steps, ranks that lag, and time that is too short. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .metrics_tail import Reading

SECONDS = 300  # without a step, by default
STEPS_FOR_A_PACE, SLACK = 10, 1.2  # the pace of a few steps is known roughly
BUSY, WAKES = 0.5, 50  # of a CPU; per second
# Horovod's stall inspector (0.28, stall_inspector.cc), after HOROVOD_STALL_CHECK_TIME_SECONDS, 60:
# `Missing ranks:`, then a line for each, `1: [gradient.weight, ...]`
TITLE = "Missing ranks:"
MISSING = re.compile(r"^(?:\d+@\S+ \| )?\s*(\d+): \[(.*)\]\s*$")


@dataclass(frozen=True)
class RankSample:
    """What one rank's main thread did for a second: `busy` of a CPU, `wakes` from sleep.

    `state` is a letter of proc(5): R runs, S sleeps, D waits for a disk, T is stopped.
    """

    rank: int
    host: str
    state: str
    busy: float
    wakes: int


@dataclass(frozen=True)
class Stall:
    """A stall: seconds since the last step, and who `lags`, as `rank 1@n2: why`.

    `lags` is empty where nobody differs from the others.
    """

    seconds: float
    step: int
    lags: tuple[str, ...] = ()


def find_stall(
    reading: Reading | None,
    now: float,
    limit: float,
    tail: Sequence[str] = (),
    samples: Sequence[RankSample] = (),
) -> Stall | None:
    """Return the stall of a job that runs; None if it made a step within `limit` seconds.

    `now` is Unix time. `tail` are the log's last lines, `samples` what was seen of each rank. A run
    that has not begun to make steps has no stall: ranks that do not meet are found otherwise.
    """
    if reading is None or now - reading.time < limit:
        return None
    hosts, seen = {sample.rank: sample.host for sample in samples}, lagging(samples)
    lags = [f"rank {sample.rank}@{sample.host}: {why}" for sample, why in seen]
    for rank in missing(tail):
        if rank not in {sample.rank for sample, _ in seen}:
            name = f"{rank}@{hosts[rank]}" if rank in hosts else str(rank)
            lags.append(f"rank {name}: Horovod misses it")
    return Stall(now - reading.time, reading.step, tuple(lags))


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


def lagging(samples: Sequence[RankSample]) -> list[tuple[RankSample, str]]:
    """Return the ranks that are not waiting as the others are, and what they do instead."""
    for why, differs in (
        ("it is stopped (state T), by a signal or a debugger", lambda one: one.state in "Tt"),
        ("it waits for a disk or a file server (state D)", lambda one: one.state == "D"),
        ("it computes, and the others wait", lambda one: one.busy >= BUSY),
        ("it sleeps, and the others look for it", lambda one: one.wakes < WAKES),
    ):
        differing = [one for one in samples if differs(one)]
        if differing and len(differing) < len(samples):
            return [(one, why) for one in differing]
    return []


def parse(text: str) -> list[RankSample]:
    """Parse the lines of `sample_ranks.py`, one for each rank; other lines are passed over."""
    rows = [line.split() for line in text.splitlines()]
    return [
        RankSample(int(row[0]), row[1], row[2], float(row[3]), int(row[4]))
        for row in rows
        if len(row) == 5 and row[0].isdigit()
    ]


def in_words(stall: Stall) -> str:
    """Return a stall in words, for people."""
    minutes, seconds = divmod(round(stall.seconds), 60)
    since = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    who = "; ".join(stall.lags) or "no rank differs from the others: they wait for each other"
    return f"no step for {since} (the last one: {stall.step}); {who}"
