"""Cobalt, as on ALCF's ThetaGPU (retired). Its scripts were run with stand-ins for its commands.

Facts: ALCF's guides for Theta and ThetaGPU. Nodes are given whole. Cobalt forgets a job when it has
ended; what remains is what the job has left in its folder. Like PBS it passes no environment on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from ..core import shell
from ..core.errors import Refused, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState
from ..core.model import JobSpec, Plan, Refusal
from . import time_limits, untranslatable
from .pbs import opening as opening
from .pbs_options import job_name
from .protocol import Capabilities, SchedulerStatus

CAPABILITIES = Capabilities(
    "Cobalt", "cqsub", ("mpirun", "horovodrun"), node_file="$COBALT_NODEFILE"
)
SHEBANG = "#!/bin/bash -l"
ARRAYS = STEPS = INTERACTIVE = None
HAS = frozenset(
    (
        "nodes",
        "ntasks",
        "ntasks_per_node",
        "cpus_per_task",
        "gpus_per_node",
        "gres",
        "time",
        "partition",
        "account",
        "exclusive",
    )
)
INSTEAD = {
    "qos": "partition",  # Cobalt's -q is a queue
    "gpus": untranslatable.GPUS,
    "gpus_per_task": untranslatable.GPUS,
}
STATES = {
    "queued": JobState.PENDING,
    "user_hold": JobState.PENDING,
    "admin_hold": JobState.PENDING,
    "dep_hold": JobState.PENDING,
    "dep_fail": JobState.PENDING,
    "maxrun_hold": JobState.PENDING,
    "starting": JobState.PENDING,
    "running": JobState.RUNNING,
    "killing": JobState.RUNNING,
    "exiting": JobState.RUNNING,
}


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return what Cobalt does not have."""
    return tuple(untranslatable.unknown(spec, "Cobalt", HAS, INSTEAD))


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the #COBALT lines; --sbatch-arg follows as it is, for what else a site wants.

    The script writes its log itself, so Cobalt's copies of the output are dropped.
    """
    asked = plan.spec.resources
    options = [f"--jobname {job_name(plan.spec.name)}", "--mode script", f"-n {asked.nodes}"]
    limit = time_limits.seconds(asked.time) if asked.time else None
    if limit is not None:
        options.append(f"-t {-(-limit // 60)}")  # minutes
    for letter, value in (("-q", asked.partition), ("-A", asked.account)):
        options += [f"{letter} {value}"] if value else []
    options += ["-o /dev/null", "-e /dev/null"]
    return [f"#COBALT {option}" for option in (*options, *plan.spec.sbatch_args)]


def by_hand(paths: JobPaths) -> str:
    """Return the command that submits the script again."""
    return shlex.join(submit_argv(str(paths.script)))


def submit(paths: JobPaths | ArrayPaths, log: Path) -> str:
    """Submit the run's script; return the job number, or raise Refused with Cobalt's words."""
    paths.script.chmod(0o755)  # Cobalt executes the file itself
    return parse_submit(shell.run(submit_argv(str(paths.script))))


def submit_argv(script: str) -> list[str]:
    """Return the command."""
    return ["qsub", script]


def parse_submit(answer: shell.Result) -> str:
    """Return the number, which stands alone on the last line."""
    words = answer.out.split()
    if answer.code != 0 or not words or not words[-1].isdigit():
        said = answer.err.strip() or answer.out.strip()
        raise Refused("Cobalt refused the job; nothing was submitted", said)
    return words[-1]


def states(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """Return the states of the jobs that Cobalt still knows, with one call for all."""
    return parse_states(shell.run(states_argv(ids)))


def states_argv(ids: Iterable[str]) -> list[str]:
    """Return the command."""
    return ["qstat", "--header", "JobID:State", *ids]


def parse_states(answer: shell.Result) -> dict[str, SchedulerStatus]:
    """Parse a table of two columns under a line of `=`; jobs that have ended are not in it.

    Raises SystemFault with what it printed when there is no table though something was said.
    """
    rows = re.findall(r"^\s*(\d+)\s+(\w+)\s*$", answer.out, re.MULTILINE)
    if answer.code != 0 and not rows and answer.err.strip() and "===" not in answer.out:
        raise SystemFault("Cobalt's answer was not understood", answer.err.strip()[:500], "qstat")
    return {id: SchedulerStatus(STATES.get(state, JobState.UNKNOWN)) for id, state in rows}


def history(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """There is no accounting that a user can ask."""
    return {}


def is_id(text: str) -> bool:
    """Whatever it is: Cobalt says what it does not know."""
    return True


def ahead(id: str) -> int | None:
    """Nobody tells."""
    return None


def cancel(id: str) -> None:
    """Cancel a job; raise SystemFault with Cobalt's words."""
    answer = shell.run(cancel_argv(id))
    if answer.code != 0:
        raise SystemFault(f"Cobalt did not cancel job {id}", answer.err.strip())


def cancel_argv(id: str) -> list[str]:
    """Return the command."""
    return ["qdel", id]
