"""Jobs that Slurm ended, or could not start: nodes, limits, preemption, cancelling."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace

from ..core.diagnosis import Certainty
from ..core.job_record import JobState
from ..core.remedy import Remedy, Value, advice, change, command
from ..schedulers.base import clock, limit_seconds
from . import pace
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import finding, name_of_signal
from .fixes import AGAIN, go_on, logs_of, resume, saves, since
from .lost_ranks import MISSING_RANK, MISSING_RANKS

# slurmstepd: `*** JOB 1 ON n1 CANCELLED AT 2026-11-21T20:00:00 DUE TO TIME LIMIT ***`
CANCELLED = LogPattern(" CANCELLED AT ", r"^slurmstepd.*: error: \*\*\* (?:JOB|STEP) \S+ ON \S+ ")
NODE_FAILED = LogPattern("ode failure on ", r"^srun: error: Node failure on (\S+)")
# srun gives up at once, or waits and tries again for as long as the job has time
STEP_NOT_CREATED = LogPattern("Unable to create step", r"^srun: error: (?!.*already completing)")
STEP_NEVER_RUNS = LogPattern("Job step may never run", r"^srun: ")
STEP_WAITS = LogPattern("step creation temporarily disabled", r"^srun: ")
NO_STEP = (STEP_NEVER_RUNS, STEP_NOT_CREATED, STEP_WAITS)
STEP_CREATED = LogPattern("tep created for ", r"^srun: ")
BY_SIGNAL = re.compile(r"RaisedSignal:(\d+)")
SIGNAL_NO_LOG = 53  # of slurmstepd that cannot open a job's log (21.08 to 26.05)
STALL_SECONDS = LogPattern("waiting for remainder of ranks for more than")
STALL_WARNING = LogPattern(MISSING_RANKS)
STALLED_RANKS = LogPattern(": [", MISSING_RANK)
STALL_STATES = (JobState.TIMEOUT, JobState.CANCELLED, JobState.RUNNING, JobState.FAILED)


# `DUE TO ...` in slurmstepd's line -> the state in which the job will end
DUE_TO = {
    "TIME LIMIT": JobState.TIMEOUT,
    "PREEMPTION": JobState.PREEMPTED,
    "NODE FAILURE": JobState.NODE_FAIL,
    "JOB REQUEUE": JobState.RUNNING,
    "TASK FAILURE": JobState.RUNNING,
}


def end_in_sight(facts: Facts) -> Facts:
    """Return the facts of a job that Slurm is ending right now as of one that has ended.

    For some seconds it runs still, and its ranks are ended by all sorts of signals.
    """
    lines = [line.text for line in facts.lines(CANCELLED) if "*** JOB " in line.text]
    if facts.state != JobState.RUNNING or not lines:
        return facts
    return replace(facts, state=_due(lines[-1]) or JobState.CANCELLED)


def _due(line: str) -> JobState | None:
    """Return the state that slurmstepd's line tells the reason of; None where it has none."""
    return next((state for words, state in DUE_TO.items() if f"DUE TO {words}" in line), None)


def end_in_text(facts: Facts) -> Facts:
    """Return the facts of a log alone with the state that Slurm's last words in it tell.

    A cancelled step may be what follows a failed rank, so that one counts with a reason only.
    """
    lines = [line.text for line in facts.lines(CANCELLED)]
    last = lines[-1] if lines else ""
    due = _due(last) or (JobState.CANCELLED if "*** JOB " in last else None)
    return replace(facts, state=due if due and due.ended else JobState.FAILED)


def stall(facts: Facts) -> Explanation | None:
    """Horovod's stall inspector named the ranks that were missed."""
    lines = facts.lines(STALL_WARNING)
    record = facts.record
    # Who is cancelled while it waits is ended by a signal, and has not failed.
    if not lines or facts.state not in STALL_STATES or (record and not record.follower):
        return None
    named = [line for line in facts.lines(STALLED_RANKS) if line.number > lines[0].number]
    ranks = sorted({line.text.strip().partition(":")[0] for line in named}, key=int)
    noun = "rank" if len(ranks) == 1 else "ranks"
    who = f"{noun} {', '.join(ranks)}" if ranks else "some ranks"
    rank = int(ranks[0]) if len(ranks) == 1 else None
    host = next((failure.host for failure in facts.failures if failure.rank == rank), "")
    cause = (
        f"the ranks waited for {who}, which did not join a collective operation that all others "
        "had started"
    )
    fix = logs_of(facts, int(ranks[0]) if ranks else 0)
    shown = (*facts.lines(STALL_SECONDS)[:1], *named[:2])
    because = "Horovod's stall inspector reports it; only that rank's own log may tell why"
    said = finding(cause, shown, fix, Certainty.LIKELY, because)
    return replace(said, rank=rank, host=host)


def ended(
    facts: Facts,
    cause: str,
    fix: Remedy,
    *evidence: object,
    because: str = "",
    others: Sequence[Remedy] = (),
) -> Explanation:
    """Return what Slurm itself says of the job's end.

    How the ranks ended is no part of it: Slurm ended them, and their containers.
    """
    lines = [*evidence, *[line for line in facts.lines(CANCELLED)[:2] if line not in evidence]]
    shown = (f"the scheduler's state of the job: {facts.state.value}", *lines)
    because = because or "that is the final state of the job"
    said = finding(cause, shown, fix, Certainty.CERTAIN, because)
    return replace(said, remedies=(fix, *others), host=_node(facts), of_job=True)


def _node(facts: Facts) -> str:
    """Return the node that was lost, where srun names it."""
    seen = facts.match(NODE_FAILED)
    return seen[1][1].rstrip(".,") if seen else ""


def node_lost(facts: Facts) -> Explanation | None:
    """A node does not answer any more, or was taken out."""
    in_log = any("DUE TO NODE FAILURE" in line.text for line in facts.lines(CANCELLED))
    if facts.state != JobState.NODE_FAIL and not facts.lines(NODE_FAILED) and not in_log:
        return None
    node = _node(facts) or "a node of the job"
    cause = f"{node} was lost: it, its network or its slurmd does not answer{since(facts)}"
    fix = change(exclude=node) if _node(facts) and facts.saved is None else go_on(facts)
    return ended(facts, cause, fix, *facts.lines(NODE_FAILED)[:2])


def _of_slurm(facts: Facts) -> str:
    """Return the number that Slurm knows: of what runs within a job, that job's."""
    return facts.job.id.partition(".")[0]


def no_step(facts: Facts) -> Explanation | None:
    """The job has its nodes, and srun cannot make a step on them, or waits for what never comes."""
    lines = [line for pattern in NO_STEP for line in facts.lines(pattern)[:1]]
    made = [line.number for line in facts.lines(STEP_CREATED)]
    if not lines or facts.record or any(number > lines[-1].number for number in made):
        return None  # or a rank has started, and tells how it ended
    why = re.sub(r"^srun: (?:error: )?", "", lines[0].text)
    cause = f"srun could not start the ranks within the job: {why}"
    fix = command("scontrol", "show", "job", _of_slurm(facts))
    if "nodes are busy" in why:
        cause += "; another step of the job has them: `export SLURM_OVERLAP=1` lets steps share"
        fix = command("squeue", "--steps", "--jobs", _of_slurm(facts))
    elif facts.plan.sbatch_args:
        fix = change(leave_out=["sbatch-arg"])
    if not facts.state.ended:
        cancel = command("runner", "cancel", facts.job.id)
        fix = replace(fix, text=" && ".join(filter(None, (cancel.text, fix.text))))
    return ended(facts, cause, fix, *lines, because="srun reports it")


def no_step_yet(facts: Facts) -> Explanation | None:
    """The same, of a job that ran until somebody or its time limit ended it, or that still runs."""
    return None if facts.state == JobState.FAILED else no_step(facts)


def time_limit(facts: Facts) -> Explanation:
    seconds = limit_seconds(facts.resources.time or "")
    limit = f" of {clock(seconds)}" if seconds else ", the partition's,"
    cause = f"the job reached its time limit{limit} and was ended{since(facts)}"
    if seconds and (needed := pace.needed_seconds(facts, seconds)):
        cause += f"; {pace.in_words(facts, needed)}"
        best, *others = pace.ways(facts, seconds, needed)
        return ended(facts, cause, best, others=others)
    longer: dict[str, Value] = {"time": clock(2 * seconds)} if seconds else {}
    again = change(requeue=True, arguments=resume(facts))
    fix = change(longer, arguments=resume(facts))
    if not longer and not saves(facts):
        fix = advice("give a longer time limit, --time, or another partition")
    if facts.plan.interruption.requeue_limit or not saves(facts):
        return ended(facts, cause, fix)
    if not longer:
        return ended(facts, cause, again)
    does = "to save before the limit, and to be requeued and resume from there by itself"
    return ended(facts, cause, fix, others=[replace(again, does=does)])


def cancelled(facts: Facts) -> Explanation:
    by = f" {facts.reason}" if facts.reason.startswith("by ") else ""
    by = " by yourself" if by == f" by {os.getuid()}" else by.replace(" by ", " by user ")
    return ended(facts, f"the job was cancelled{by}{since(facts)}", go_on(facts))


def runs_folder(facts: Facts) -> Explanation | None:
    """The run's folder is not there on the node: Slurm could not even open the log."""
    match = BY_SIGNAL.match(facts.reason)
    if not match or int(match[1]) != SIGNAL_NO_LOG or facts.log.size or facts.failures:
        return None
    cause = (
        f"the run's folder {facts.paths.root} does not exist on the node or is not writable: "
        "it must be on a file system that all nodes share"
    )
    fix = advice("give --runs-dir a folder that the nodes share")
    if facts.scratch:
        fix = change(runs_dir=f"{facts.scratch}/runs")
    because = f"Slurm ends a job whose log it cannot open with signal {SIGNAL_NO_LOG}"
    return ended(facts, cause, fix, facts.reason, because=because)


def script_killed(facts: Facts) -> Explanation | None:
    """A signal ended the job's script, and its ranks with it."""
    match = BY_SIGNAL.match(facts.reason)
    if not match:
        return None
    number = int(match[1])
    name = name_of_signal(number) or str(number)
    cause = f"{name} ended the job's script, and the ranks with it{since(facts)}"
    if number != signal.SIGUSR1 or not saves(facts):
        return ended(facts, cause, go_on(facts))
    because = "it passes SIGUSR1 on to the ranks, which save then, only if the launch asked for it"
    return ended(facts, cause, change(signal="USR1@120"), because=because)


def folder_deleted(facts: Facts) -> Explanation | None:
    """What the job left is gone, and with it what would tell how it ended."""
    if facts.paths.root.is_dir():
        return None
    cause = f"the run's folder {facts.paths.root} was deleted while the job ran"
    because = "the folder is not there, and had the only records of how the ranks ended"
    return ended(facts, cause, AGAIN, because=because)


def never_began(facts: Facts) -> Explanation | None:
    """The scheduler does not know the job, and its script did not begin.

    NOTE: slurmctld that is killed in the second of a submission has not saved it (24.11).
    """
    if facts.paths.starts.exists() or facts.log.last:
        return None
    cause = (
        "the scheduler does not know the job, and its script never began: it was lost when the "
        "scheduler was restarted just after the submission, or was cancelled while it waited"
    )
    because = "the run's folder has no start and no log, and the scheduler no record of the job"
    return finding(cause, (facts.reason,), AGAIN, Certainty.LIKELY, because)


SIGNATURES = (
    # What a message of Slurm's own tells better comes before these.
    Signature("no-step", no_step, Precedence.NOT_STARTED, state=JobState.FAILED),
    Signature(
        "run-folder-deleted", folder_deleted, Precedence.NOT_STARTED + 10, state=JobState.UNKNOWN
    ),
    Signature("never-began", never_began, Precedence.NOT_STARTED + 20, state=JobState.UNKNOWN),
    Signature("stall", stall, Precedence.SLURM, (STALL_SECONDS, STALL_WARNING, STALLED_RANKS)),
    Signature("node-lost", node_lost, Precedence.SLURM + 20, (NODE_FAILED, CANCELLED)),
    Signature("no-step", no_step_yet, Precedence.SLURM + 30, (*NO_STEP, STEP_CREATED), early=True),
    Signature("time-limit", time_limit, Precedence.SLURM + 40, state=JobState.TIMEOUT),
    Signature("cancelled", cancelled, Precedence.SLURM + 60, state=JobState.CANCELLED),
    Signature("runs-folder-not-shared", runs_folder, Precedence.SLURM + 80),
    Signature("script-killed", script_killed, Precedence.SLURM + 90, state=JobState.FAILED),
)
