"""PBS Professional, as on ALCF's Polaris. Rendered and compared with whole scripts, never run here.

Facts: PBS Professional 2022.1 Reference Guide (qsub, qstat, "Job Exit Codes"), docs.alcf.anl.gov.
A job does not get the environment that it was submitted from: what it needs belongs in --env.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core import shell
from ..core.errors import Refused, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState
from . import pbs_array, time_limits
from .pbs_options import directives as directives
from .pbs_options import refusals as refusals
from .protocol import Capabilities, SchedulerStatus

CAPABILITIES = Capabilities(
    "PBS", "qsub", ("mpiexec", "mpirun", "horovodrun"), requeues=True, node_file="$PBS_NODEFILE"
)
SHEBANG = "#!/bin/bash -l"  # `module` is there in login shells only
ARRAYS, STEPS, INTERACTIVE = pbs_array, None, None
STATES = {
    "B": JobState.RUNNING,  # an array that has begun
    "E": JobState.RUNNING,
    "F": JobState.UNKNOWN,  # finished: how, its exit status tells
    "H": JobState.PENDING,
    "M": JobState.PENDING,  # moved to another server
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.PENDING,  # suspended
    "T": JobState.PENDING,
    "U": JobState.PENDING,
    "W": JobState.PENDING,
    "X": JobState.UNKNOWN,
}
# Exit statuses that PBS gives itself (job.h, JOB_EXEC_KILL_*); others are the script's.
KILLED = {
    -26: JobState.OUT_OF_MEMORY,
    -27: JobState.OUT_OF_MEMORY,
    -28: JobState.TIMEOUT,
    -29: JobState.TIMEOUT,
}
SIGNAL = 256  # added to the number of the signal that ended the script
DELETED = 91  # the substate of a job that qdel ended


def opening(plan: Any, paths: JobPaths, cwd: str) -> list[str]:
    """Return the script's first steps: its folder, and the log, written as it grows.

    PBS brings a job's output when the job has ended, and reads host:path in its name.
    """
    log = plan.spec.output or str(paths.log)
    return [f"cd {shlex.quote(cwd)} || exit", f"exec >> {shlex.quote(log)} 2>&1"]


def by_hand(paths: JobPaths) -> str:
    """Return the command that submits the script again."""
    return shlex.join(submit_argv(str(paths.script)))


def submit(paths: JobPaths | ArrayPaths, log: Path) -> str:
    """Submit the run's script; return the job's identifier, or raise Refused with PBS's words."""
    return parse_submit(shell.run(submit_argv(str(paths.script))))


def submit_argv(script: str) -> list[str]:
    """Return the command."""
    return ["qsub", script]


def parse_submit(answer: shell.Result) -> str:
    """Return the identifier, such as 123.server, from qsub's last line; a hook may print others."""
    lines = answer.out.split()
    if answer.code != 0 or not lines:
        said = answer.err.strip() or answer.out.strip()
        raise Refused("PBS refused the job; nothing was submitted", said)
    return lines[-1]


def states(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """Return state and reason of the jobs that PBS still knows, with one call for all."""
    ids = list(ids)
    answer = shell.run(states_argv(ids))
    known = parse_states(answer)
    return {id: known[_number(id)] for id in ids if _number(id) in known}


def states_argv(ids: Iterable[str]) -> list[str]:
    """Return the command; -x also tells of finished jobs, for as long as the site keeps them.

    Of an array, -t tells of each task, 123[4].server of 123[].server.
    """
    wholes = list(dict.fromkeys(pbs_array.whole_id(id) for id in ids))
    tasks = ["-t"] if any("[]" in id for id in wholes) else []
    return ["qstat", "-x", *tasks, "-f", "-F", "json", *wholes]


def parse_states(answer: shell.Result) -> dict[str, SchedulerStatus]:
    """Return states by number; what qstat says of jobs that it does not know is left out.

    Raises SystemFault with what it printed when that is not JSON, or nothing.
    """
    unknown = re.findall(r"Unknown Job I[dD]", answer.err)
    if not answer.out.strip() and unknown:
        return {}
    try:
        jobs = json.loads(answer.out)["Jobs"] if answer.out.strip() else None
    except (ValueError, KeyError, TypeError):
        jobs = None
    if not isinstance(jobs, dict):
        said = (answer.err.strip() or answer.out.strip())[:500]
        raise SystemFault("PBS's answer was not understood", said, "qstat -x -f -F json")
    return {_number(id): _state(job) for id, job in jobs.items()}


def _state(job: dict[str, Any]) -> SchedulerStatus:
    """Return what qstat says of a job; exec_host is like n1/0*4+n2/0*4."""
    state = STATES.get(str(job.get("job_state")), JobState.UNKNOWN)
    reason = str(job.get("comment", "")) if state == JobState.PENDING else ""
    if job.get("job_state") in ("F", "X"):
        state, reason = ended(job.get("Exit_status"), job.get("substate"))
    places = str(job.get("exec_host", "")).split("+")
    nodes = ",".join(dict.fromkeys(place.partition("/")[0] for place in places))
    used = time_limits.seconds(str(job.get("resources_used", {}).get("walltime", "")))
    limit = time_limits.seconds(str(job.get("Resource_List", {}).get("walltime", "")))
    left = None if used is None or limit is None or state.ended else float(limit - used)
    return SchedulerStatus(state, reason, 0, nodes, used, left)


def ended(status: int | None, substate: object = None) -> tuple[JobState, str]:
    """Return how a finished job ended, from its exit status; without one it never ran."""
    if status is None or str(substate) == str(DELETED):
        return JobState.CANCELLED, ""
    if status in KILLED:
        return KILLED[status], ""
    if status > SIGNAL:
        return JobState.FAILED, f"ended by signal {status - SIGNAL}"
    if status < 0:
        return JobState.NODE_FAIL, f"PBS could not run it: exit status {status}"
    return (JobState.COMPLETED, "") if status == 0 else (JobState.FAILED, "")


def _number(id: str) -> str:
    return id.split(".")[0]


def history(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """There is none beyond what `states` asks for."""
    return {}


def is_id(text: str) -> bool:
    """Whatever it is: PBS says what it does not know."""
    return True


def ahead(id: str) -> int | None:
    """Nobody tells."""
    return None


def cancel(id: str) -> None:
    """Cancel a job; raise SystemFault with PBS's words."""
    answer = shell.run(cancel_argv(id))
    if answer.code != 0:
        raise SystemFault(f"PBS did not cancel job {id}", answer.err.strip())


def cancel_argv(id: str) -> list[str]:
    """Return the command."""
    return ["qdel", id]
