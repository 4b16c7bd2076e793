"""A training that its time limit ended: whether its pace lets it finish, and how it can."""

from __future__ import annotations

from dataclasses import replace

from ..core.remedy import Remedy, Value, change
from ..core.text import span
from ..jobs import metrics_tail
from ..schedulers.base import clock
from .facts import Facts
from .fixes import resume, saves

SHORTEST_START = 3600  # seconds of each start of several, at least
BEFORE_LIMIT = 120  # seconds in which the ranks save
FEW_STARTS = 5  # of the ten that --requeue-limit allows by itself: failures count too
LEEWAY = 1.2


def needed_seconds(facts: Facts, seconds: int) -> int:
    """Return what all steps need at the pace of those that were made within `seconds`.

    0 where twice the time is enough, or the trainer says nothing of its steps.
    """
    reading = None if facts.of_text else metrics_tail.last(facts.paths)
    if not reading or not reading.steps or not reading.step:
        return 0
    needed = round(seconds * reading.steps / reading.step)
    return needed if needed > 2 * seconds else 0


def in_words(facts: Facts, needed: int) -> str:
    text = f"at its pace all steps need {span(needed)}: it cannot finish within it"
    several = ", but in several starts that resume from checkpoints"
    return text + several if saves(facts) else text


def ways(facts: Facts, seconds: int, needed: int) -> list[Remedy]:
    """Return how it can finish: by being requeued, if it saves, or in one job."""
    longer = change(time=clock(round(LEEWAY * needed)))
    whole = replace(longer, does="to finish in one job, where its partition gives so much time")
    if not saves(facts):
        return [whole]
    limit = max(seconds, SHORTEST_START)
    starts = -(-needed // limit)
    settings: dict[str, Value] = {"time": clock(limit)} if limit > seconds else {}
    settings |= {"requeue-limit": 2 * starts} if starts > FEW_STARTS else {}
    signal = f"USR1@{BEFORE_LIMIT}"
    again = change(settings, requeue=True, signal=signal, arguments=resume(facts))
    return [again, whole]
