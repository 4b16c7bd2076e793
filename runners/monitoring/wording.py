"""A job's state, why it waits or ended, its place in the queue and its times, in words.

Pure but for the clock. The codes of reasons are Slurm's (squeue(1), "JOB REASON CODES"); other
schedulers write sentences themselves.
"""

from __future__ import annotations

import re
import time

from ..core.job_record import Job, JobState, Status
from ..core.text import count, span

DAY = 86400
REASONS = {
    "Priority": "other jobs are before it",
    "Resources": "it is next, and waits for free nodes",
    "Dependency": "another job has to end first",
    "DependencyNeverSatisfied": "the job that it waits for did not end as asked: it never starts",
    "BeginTime": "the time at which it may begin has not come",
    "JobHeldUser": "held by its owner, until: scontrol release JOB",
    "JobHeldAdmin": "held by an administrator",
    "JobHoldMaxRequeue": "held, because it came back too often, until: scontrol release JOB",
    "JobArrayTaskLimit": "as many runs of its array as may run at once run already",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "PartitionDown": "its partition starts no jobs now",
    "PartitionInactive": "its partition starts no jobs now",
    "PartitionNodeLimit": "it asks for more nodes, or fewer, than its partition gives",
    "PartitionTimeLimit": "its --time is above the limit of its partition",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation was deleted",
    "Licenses": "it waits for a licence",
    "BadConstraints": "no nodes fit what it asks for",
    "InvalidAccount": "its account may not be used",
    "InvalidQOS": "its QOS may not be used",
    "Cleaning": "its last start is being cleaned up",
    "NodeDown": "a node that it needs is down",
    "JobLaunchFailure": "a node could not start it",
    "launch failed requeued held": "a node could not start it; held, until: scontrol release JOB",
    # The state, or the exit code, says as much.
    "TimeLimit": "",
    "OutOfMemory": "",
    "NonZeroExitCode": "",
}
NODES_AWAY = "Nodes required for job are DOWN"
LIMIT = re.compile(r"(Assoc|QOS)\w+")
WHOSE = {"Assoc": "your account", "QOS": "its QOS"}
SIGNAL = re.compile(r"RaisedSignal:(\d+).*")


def describe(status: Status, limit: int = 0) -> str:
    """Return a status in words; `limit` is how often the job may come back."""
    restart = f"restart {status.restart}" if status.restart else ""
    if restart and limit:
        restart += f" of {limit}"
    more = ", ".join(text for text in (reason_in_words(status.reason), restart) if text)
    return status.state.value + (f" ({more})" if more else "")


def moment(when: float, now: float) -> str:
    """Return a time of day, with the date where it is not within the next, or last, 12 hours."""
    form = "%H:%M" if abs(when - now) < DAY / 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(when))


def stamp(when: float | None) -> str | None:
    return None if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def before_it(ahead: int | None) -> str:
    if ahead is None:
        return ""
    return f"; {count(ahead, 'job')} before it" if ahead else "; none before it"


def beside(job: Job, now: Status) -> str:
    """Return the state with its times, for beside the bar."""
    text = f"job {job.id} {now.state.value}"
    if now.state == JobState.PENDING and now.start:
        return f"{text}, to start at {moment(now.start, time.time())} or before"
    if now.nodes and not now.state.ended:
        text += f" on {now.nodes}"
    running = now.state == JobState.RUNNING
    return text + (f", {span(now.left)} to its limit" if running and now.left else "")


def reason_in_words(reason: str) -> str:
    """Return a reason in plain words; a limit keeps its code, by which a site's staff knows it."""
    plain = reason.replace("_", " ").strip()
    code, comma, more = plain.partition(",")
    if plain.startswith(NODES_AWAY):
        return "the nodes that it needs are down, drained or kept for other jobs"
    if signal := SIGNAL.fullmatch(plain):
        return f"ended by signal {signal[1]}"
    if limit := LIMIT.fullmatch(code):
        return f"{WHOSE[limit[1]]} allows no more for now: {code}"
    if code in REASONS:
        return REASONS[code] + (f" ({more.strip()})" if comma else "")
    return reason
