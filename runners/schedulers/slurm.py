"""Slurm: for each verb a command builder and an output parser, both pure, then the call."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .. import shell
from ..errors import Refused, SystemFault
from ..jobs import JobPaths, JobState

STATES = {
    "PENDING": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
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


def states(ids: Iterable[str]) -> dict[str, tuple[JobState, str]]:
    """Return state and reason of the jobs that Slurm still knows, with one call for all."""
    command = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%r"]
    answer = shell.run([*command, f"--user={os.getuid()}"])
    if answer.code != 0:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    known = parse_squeue(answer.out)
    return {id: known[id] for id in ids if id in known}


def parse_squeue(text: str) -> dict[str, tuple[JobState, str]]:
    """Parse lines of `id|STATE|reason`."""
    found = {}
    for line in text.splitlines():
        id, state, reason = line.split("|", 2)
        found[id] = (STATES.get(state, JobState.UNKNOWN), "" if reason == "None" else reason)
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


# `srun: error: n2: task 3: Killed`, or `tasks 1-3: Exited with exit code 1`
LOST = re.compile(r"^srun: error: (?P<host>[^:\s]+): tasks? (?P<ranks>[\d,-]+): (?P<how>.+)$", re.M)


def lost_task(log: str) -> str | None:
    """Return `rank@host: how` from srun's own words, for a rank that left no record itself."""
    match = LOST.search(log)
    return f"{match['ranks']}@{match['host']}: {match['how']}" if match else None
