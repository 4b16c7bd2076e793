"""A job's state, its place in the queue and its times, in words. Pure but for the clock."""

from __future__ import annotations

import time

from ..core.job_record import Job, JobState, Status
from ..schedulers import pending_reasons

DAY = 86400


def describe(status: Status, limit: int = 0) -> str:
    """Return a status in words; `limit` is how often the job may come back."""
    restart = f"restart {status.restart}" if status.restart else ""
    if restart and limit:
        restart += f" of {limit}"
    more = ", ".join(text for text in (pending_reasons.in_words(status.reason), restart) if text)
    return status.state.value + (f" ({more})" if more else "")


def span(seconds: float | None) -> str:
    """Return seconds as 0:07, 1:02:03 or 2-03:04:05, as Slurm writes them; "" for None."""
    if seconds is None:
        return ""
    minutes, secs = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def moment(when: float, now: float) -> str:
    """Return a time of day, with the date where it is not within the next, or last, 12 hours."""
    form = "%H:%M" if abs(when - now) < DAY / 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(when))


def stamp(when: float | None) -> str | None:
    return None if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def before_it(ahead: int | None) -> str:
    if ahead is None:
        return ""
    return f"; {ahead} job{'s' * (ahead != 1)} before it" if ahead else "; none before it"


def beside(job: Job, now: Status) -> str:
    """Return the state with its times, for beside the bar."""
    text = f"job {job.id} {now.state.value}"
    if now.state == JobState.PENDING and now.start:
        return f"{text}, to start at {moment(now.start, time.time())} or before"
    if now.nodes and not now.state.ended:
        text += f" on {now.nodes}"
    return text + (f", {span(now.left)} to its limit" if now.left and now.elapsed else "")
