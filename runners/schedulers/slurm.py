"""Slurm: for each verb a command builder and an output parser, both pure, then the call."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from .. import shell
from ..errors import Refused, SystemFault
from ..jobs import JobPaths, JobState
from ..model import JobSpec, Plan, Refusal, Resources

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
# These two reach sbatch although all else of Slurm's is removed: they say which cluster it is.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")


def submit(paths: JobPaths, name: str, log: Path) -> str:
    """Submit the run's script; return the job number.

    Raises Refused with Slurm's own words, SystemFault when the controller does not answer.
    """
    check_controller(shell.run(["scontrol", "ping"], timeout=30))
    answer = shell.run(["sbatch", "--parsable", str(paths.script)], env=scrubbed(os.environ))
    return parse_submit(answer)


def check_controller(answer: shell.Result) -> None:
    """Raise SystemFault unless `scontrol ping` found a controller; sbatch would wait long."""
    if answer.code != 0 or " UP" not in answer.out:
        raise SystemFault(
            "Slurm's controller does not answer; nothing was submitted",
            (answer.out + answer.err).strip(),
            "scontrol ping, and ask the site's administrators if it stays down",
        )


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job, or SBATCH_*, would tell sbatch."""
    return {
        name: value
        for name, value in env.items()
        if name in KEPT or not name.startswith(("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_"))
    }


def parse_submit(answer: shell.Result) -> str:
    """Return the number from `sbatch --parsable`, which may add `;cluster`."""
    if answer.code != 0:
        raise Refused("Slurm refused the job; nothing was submitted", answer.err.strip())
    return answer.out.strip().splitlines()[-1].split(";")[0]


def states(ids: Iterable[str]) -> dict[str, tuple[JobState, str, int]]:
    """Return state, reason and restarts of the jobs that Slurm still knows; one call for all."""
    fields = ",".join(f"{name}:|" for name in ("JobArrayID", "State", "Reason", "RestartCnt"))
    command = ["squeue", "--noheader", "--states=all", f"--Format={fields}"]
    answer = shell.run([*command, f"--user={os.getuid()}"])
    if answer.code != 0:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    known = parse_squeue(answer.out)
    return {id: known[id] for id in ids if id in known}


def parse_squeue(text: str) -> dict[str, tuple[JobState, str, int]]:
    """Parse lines of `id|STATE|reason|restarts|`."""
    found = {}
    for line in text.splitlines():
        id, state, reason, restarts = line.rstrip("|").split("|")
        reason = "" if reason == "None" else reason
        found[id] = (STATES.get(state, JobState.UNKNOWN), reason, int(restarts))
    return found


def history(id: str) -> tuple[JobState, str] | None:
    """Ask the accounting for a job that the controller has forgotten; None where there is none."""
    answer = shell.run(["sacct", "--noheader", "--allocations", "--parsable2", "-oState", "-j", id])
    return parse_sacct(answer.out) if answer.code == 0 else None


def parse_sacct(text: str) -> tuple[JobState, str] | None:
    """Parse `sacct -o State`, whose CANCELLED goes on with "by UID"."""
    words = text.split()
    return (STATES.get(words[0], JobState.UNKNOWN), " ".join(words[1:])) if words else None


def cancel(id: str) -> None:
    """Cancel a job; raise SystemFault with Slurm's words."""
    answer = shell.run(["scancel", id])
    if answer.code != 0:
        raise SystemFault(f"Slurm did not cancel job {id}", answer.err.strip())


SHEBANG = "#!/bin/bash"


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return what Slurm does not have: nothing, since the settings are its own options."""
    return ()


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the #SBATCH lines."""
    spec = plan.spec
    output = spec.output or str(paths.log).replace("%", "%%")
    options = [f"--job-name={spec.name}", f"--output={output}", f"--chdir={cwd}"]
    options += [*resource_options(spec.resources), *_interrupted(plan)]
    return [f"#SBATCH {directive(option)}" for option in (*options, *spec.sbatch_args)]


def _interrupted(plan: Plan) -> list[str]:
    """Return what makes a job come back: sbatch would begin a new log at each start."""
    options = ["--no-requeue"] if plan.spec.requeue is False else []
    options += ["--requeue", "--open-mode=append"] if plan.restarts else []
    return options + ([] if plan.warning is None else [f"--signal=B:USR1@{plan.warning}"])


def resource_options(resources: Resources) -> list[str]:
    """Return one long option for each resource that is asked for."""
    options = []
    for item in fields(resources):
        value = getattr(resources, item.name)
        name = "--" + item.name.replace("_", "-")
        if value is True:
            options.append(name)
        elif value is not None and value is not False:
            options.append(f"{name}={value}")
    return options


def directive(option: str) -> str:
    """Quote an option as sbatch reads its own lines: double quotes, backslash before them."""
    if not any(char in option for char in " \t\"'\\#"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def opening(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the script's first steps: none, the directives have said folder and log."""
    return []


def by_hand(paths: JobPaths) -> str:
    """Return the command that submits the script again."""
    return f"sbatch {shlex.quote(str(paths.script))}"
