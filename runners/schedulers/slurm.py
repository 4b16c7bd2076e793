"""Slurm: for each verb a command builder and an output parser, both pure, then the call."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from ..core import shell
from ..core.errors import Refused, RunnerError, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState
from ..core.model import JobSpec, Plan, Refusal
from . import sbatch_errors, slurm_array, slurm_salloc, slurm_steps, time_limits
from .protocol import Capabilities, SchedulerStatus
from .slurm_environment import scrubbed
from .slurm_options import directives as directives

CAPABILITIES = Capabilities(
    "Slurm",
    "sbatch",
    ("srun", "mpirun", "horovodrun"),
    warns=True,
    requeues=True,
    signals_ranks=True,
    output_patterns=True,
    tells_nodes=True,
    broadcasts=True,
)
SHEBANG = "#!/bin/bash"
ARRAYS, STEPS, INTERACTIVE = slurm_array, slurm_steps, slurm_salloc
NUMBER = re.compile(r"\d+(_(\d+|\*))?(\+\d+)?")  # after:123+5 waits five minutes more
STATES = {
    "PENDING": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "SUSPENDED": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "COMPLETING": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "BOOT_FAIL": JobState.NODE_FAIL,
    "NODE_FAIL": JobState.NODE_FAIL,
    "CANCELLED": JobState.CANCELLED,
    "DEADLINE": JobState.TIMEOUT,
    "TIMEOUT": JobState.TIMEOUT,
    "PREEMPTED": JobState.PREEMPTED,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}


def submit(paths: JobPaths | ArrayPaths, log: Path) -> str:
    """Submit the run's script; return the job number.

    Raises Refused with Slurm's own words, SystemFault when the controller does not answer.
    """
    check_controller(shell.run(["scontrol", "ping"], timeout=30))
    command = ["sbatch", "--parsable", str(paths.script)]
    try:
        return parse_submit(shell.run(command, env=scrubbed(os.environ), apart=True))
    except shell.NoAnswer as error:
        raise no_answer(error.message, error.evidence) from None


def check_controller(answer: shell.Result) -> None:
    """Raise SystemFault unless `scontrol ping` found a controller; sbatch would wait long."""
    if answer.code != 0 or " UP" not in answer.out:
        raise SystemFault(
            "Slurm's controller does not answer; nothing was submitted",
            (answer.out + answer.err).strip(),
            "scontrol ping, and ask the site's administrators if it stays down",
        )


# What sbatch says when its message has gone, or may have, and no answer came.
NO_ANSWER = ("timed out", "Zero Bytes were transmitted or received", "Unexpected message received")


def no_answer(message: str, said: str) -> RunnerError:
    """Return the error for a submission without an answer; `said` are sbatch's words before."""
    if "temporarily unable to accept job" in said:
        return Refused(
            "Slurm takes no more jobs now; nothing was submitted",
            f"{said}\nit keeps MaxJobCount jobs, those of all users and those that ended just now",
            "scontrol show config | grep MaxJobCount, squeue --me, and the same command later",
        )
    return SystemFault(
        "Slurm did not answer; whether it has taken the job is not known",
        "\n".join(
            filter(None, [message, said, "the run's folder is removed: such a job ends at once"])
        ),
        "squeue --me, and the same command once more",
    )


def parse_submit(answer: shell.Result) -> str:
    """Return the number from `sbatch --parsable`, which may add `;cluster`."""
    if answer.code != 0 and any(words in answer.err for words in NO_ANSWER):
        raise no_answer("", answer.err.strip())
    if answer.code != 0:
        said = answer.err.strip()
        what = "Slurm refused the job; nothing was submitted"
        raise Refused(what, said, sbatch_errors.look(said))
    return answer.out.strip().splitlines()[-1].split(";")[0]


# NOTE: with a suffix after the colon, squeue 22.05 to 26.05 do not cut a field at 20 characters.
ASKED = ("JobArrayID", "State", "Reason", "RestartCnt", "NodeList", "TimeUsed", "TimeLeft")
SQUEUE = ["squeue", "--noheader", "--array", "--states=all"]
SACCT = ["sacct", "--noheader", "--allocations", "--parsable2", "-oJobID,State,NodeList,ElapsedRaw"]
UNIX_TIME = "%s"  # strftime(3): whatever the time zone of who asks


def states(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """Return what Slurm says of the jobs that it still knows; one call for all.

    Raises SystemFault when the controller does not answer.
    """
    fields = ",".join(f"{name}:|" for name in (*ASKED, "StartTime"))
    command = [*SQUEUE, f"--Format={fields}", f"--user={os.getuid()}"]
    answer = shell.run(command, env={**os.environ, "SLURM_TIME_FORMAT": UNIX_TIME})
    if answer.code != 0:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    known = parse_squeue(answer.out)
    return {id: known[id] for id in ids if id in known}


def parse_squeue(text: str) -> dict[str, SchedulerStatus]:
    """Parse lines of `id|STATE|reason|restarts|nodes|used|left|start|`.

    `used` and `left` are as in 1-02:03:04, or a word such as UNLIMITED.
    """
    found = {}
    for line in text.splitlines():
        id, word, reason, restarts, nodes, used, left, start = line.split("|")[:8]
        state = STATES.get(word, JobState.UNKNOWN)
        seen = SchedulerStatus(state, _reason(state, reason), int(restarts), nodes)
        if state == JobState.PENDING:
            found[id] = seen._replace(start=float(start) if start.isdigit() else None)
        else:
            found[id] = seen._replace(
                elapsed=time_limits.seconds(used), left=time_limits.seconds(left)
            )
    return found


def is_id(text: str) -> bool:
    """Whether a text is in the form of Slurm's numbers of jobs."""
    return NUMBER.fullmatch(text) is not None


def _reason(state: JobState, code: str) -> str:
    """Return squeue's reason; of a cancelled job it is mostly why it had waited."""
    if state == JobState.CANCELLED and code != "DependencyNeverSatisfied":
        return ""
    return "" if code == "None" else code


PLACE = "JobArrayID:|,PriorityLong:|,Partition:|"
QUEUE = ["squeue", "--noheader", "--states=PENDING", f"--Format={PLACE}"]


def ahead(id: str) -> int | None:
    """Return how many of the jobs that wait come before this one; None when it does not wait.

    Raises SystemFault when the controller does not answer.
    """
    answer = shell.run(QUEUE)
    if answer.code != 0:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    return parse_queue(answer.out, id)


def parse_queue(text: str, id: str) -> int | None:
    """Parse lines of `id|priority|partition,...|`; the tasks of an array that wait are one line."""
    rows = [line.split("|")[:3] for line in text.splitlines()]
    order = {_number(row[0]): (-int(row[1]), _number(row[0])) for row in rows}
    places = {_number(row[0]): set(row[2].split(",")) for row in rows}
    own = _number(id)
    if own not in order:
        return None
    return sum(order[other] < order[own] and bool(places[other] & places[own]) for other in order)


def _number(id: str) -> int:
    """Return 123 of 123, 123_4 and 123_[5-9]."""
    return int(id.partition("_")[0])


def history(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """Ask the accounting for jobs that the controller has forgotten; one call for all.

    Where there is none, nothing is known.
    """
    try:
        answer = shell.run([*SACCT, "-j", ",".join(ids)])
    except SystemFault:  # it is not on every machine from which jobs are submitted, or is slow
        return {}
    return parse_sacct(answer.out) if answer.code == 0 else {}


def parse_sacct(text: str) -> dict[str, SchedulerStatus]:
    """Parse lines of `id|STATE|nodes|seconds`; CANCELLED goes on with "by UID"."""
    found = {}
    for line in text.splitlines():
        id, words, nodes, elapsed = line.split("|")
        state, _, reason = words.partition(" ")
        nodes = "" if nodes == "None assigned" else nodes
        known = STATES.get(state, JobState.UNKNOWN)
        found[id] = SchedulerStatus(known, reason, 0, nodes, float(elapsed) if elapsed else None)
    return found


def cancel(id: str) -> None:
    """Cancel a job; raise SystemFault with Slurm's words."""
    answer = shell.run(["scancel", id])
    if answer.code != 0:
        raise SystemFault(f"Slurm did not cancel job {id}", answer.err.strip())


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return what Slurm does not have: nothing, since the settings are its own options."""
    return ()


def opening(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the script's first steps: none, the directives have said folder and log."""
    return []


def by_hand(paths: JobPaths) -> str:
    """Return the command that submits the script again."""
    return f"sbatch {shlex.quote(str(paths.script))}"
