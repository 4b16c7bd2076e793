"""Why a job waits or ended, from a scheduler's code to plain words. Pure.

The codes are Slurm's (squeue(1), "JOB REASON CODES"); other schedulers write sentences themselves.
"""

from __future__ import annotations

import re

IN_WORDS = {
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


def in_words(reason: str) -> str:
    """Return a reason in plain words; a limit keeps its code, by which a site's staff knows it."""
    plain = reason.replace("_", " ").strip()
    code, comma, more = plain.partition(",")
    if plain.startswith(NODES_AWAY):
        return "the nodes that it needs are down, drained or kept for other jobs"
    if signal := SIGNAL.fullmatch(plain):
        return f"ended by signal {signal[1]}"
    if limit := LIMIT.fullmatch(code):
        return f"{WHOSE[limit[1]]} allows no more for now: {code}"
    if code in IN_WORDS:
        return IN_WORDS[code] + (f" ({more.strip()})" if comma else "")
    return reason
