"""A command in a job that runs, in the container of its ranks, beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...core import shell
from ...core.errors import NotFound, Refused, SystemFault, UsageError
from ...core.job_record import Job, JobPaths
from ...schedulers import local, slurm
from ...schedulers.names import HERE
from ...script import launchers

# Which node says what, where several do; the command's exit code stays.
LABELLED = """\
set -o pipefail
label() { sed -u "s/^/$SLURMD_NODENAME | /"; }
{ "$0" "$@" 2>&1 >&3 3>&- | label >&2; } 3>&1 | label"""


@dataclass(frozen=True)
class Where:
    """A running job of Slurm: its number, which a task of an array has too, and its nodes."""

    number: str
    nodes: tuple[str, ...]


def of_slurm(id: str) -> Where:
    """Return where a job runs; raise Refused when it does not, SystemFault without an answer."""
    answer = shell.run(["squeue", "--noheader", f"--jobs={id}", "--format=%A|%T|%N"])
    if answer.code != 0 and "Invalid job id" not in answer.err:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    number, state, nodes = (answer.out.strip() or f"{id}|gone|").split("|")
    if state != "RUNNING":
        raise not_running(id, state.lower())
    return Where(number, names(nodes))


def names(nodes: str) -> tuple[str, ...]:
    """Return the nodes that Slurm's short form, such as n[1-3], stands for."""
    answer = shell.run(["scontrol", "show", "hostnames", nodes])
    if answer.code != 0:
        raise UsageError(f"{nodes!r} is no list of nodes", answer.err.strip(), "-w n1,n2 or n[1-2]")
    return tuple(answer.out.split())


def not_running(id: str, state: str) -> Refused:
    """Return the error for a job that has no nodes."""
    return Refused(f"job {id} does not run", f"its state: {state}", f"runner status {id}")


def chosen(there: Sequence[str], wanted: Sequence[str], all_nodes: bool) -> tuple[str, ...]:
    """Return the nodes for a command: the first, all, or those wanted.

    Raises UsageError for both at once, NotFound for nodes of others.
    """
    if wanted and all_nodes:
        raise UsageError("--nodelist and --all are two answers to one question")
    if not wanted:
        return tuple(there) if all_nodes else tuple(there[:1])
    missing = [name for name in wanted if name not in there]
    if missing:
        what = " and ".join(missing)
        raise NotFound(f"{what} is not among the job's nodes", f"it runs on {', '.join(there)}")
    return tuple(dict.fromkeys(wanted))


def argv(number: str, nodes: Sequence[str], command: Sequence[str], pty: bool) -> list[str]:
    """Return the command line of the step, on these nodes of the job. Pure."""
    start = [*launchers.step(len(nodes), pty), f"--jobid={number}", f"--nodelist={','.join(nodes)}"]
    start += [] if pty else ["--quit-on-interrupt"]
    label = ["bash", "-c", LABELLED] if len(nodes) > 1 else []
    return [*start, *label, *command]


def inner(paths: JobPaths, command: Sequence[str], host: bool) -> list[str]:
    """Return a command as it runs on a node."""
    return list(command) if host else ["bash", str(paths.enter), *command]


def run(
    paths: JobPaths,
    job: Job,
    command: Sequence[str],
    *,
    nodelist: str | None = None,
    all_nodes: bool = False,
    pty: bool = False,
    host: bool = False,
) -> int:
    """Run a command in a running job, with our own terminal; return its exit code."""
    if not host and not paths.enter.exists():
        raise Refused(f"{paths.root} does not say how to get into its container", "", "--host")
    if job.scheduler == "local":
        if job.id not in local.states([job.id]):
            raise not_running(job.id, "ended, or on another machine")
        return shell.hand_over(inner(paths, command, host))
    if job.scheduler not in ("slurm", *HERE):
        raise Refused(f"{job.scheduler} has no way into a job that is known here", "", "ssh NODE")
    there = of_slurm(job.id.partition(".")[0])
    nodes = chosen(there.nodes, names(nodelist) if nodelist else (), all_nodes)
    line = argv(there.number, nodes, inner(paths, command, host), pty and len(nodes) == 1)
    return shell.hand_over(line, slurm.scrubbed(os.environ))
