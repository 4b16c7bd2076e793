"""A command in a job that runs, in the container of its ranks, beside them."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import shell
from ...core.errors import NotFound, Refused, UsageError
from ...core.job_record import Job, JobPaths
from ...schedulers import SCHEDULERS


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
    steps = SCHEDULERS[job.scheduler].STEPS
    if steps is None:
        raise Refused(f"{job.scheduler} has no way into a job that is known here", "", "ssh NODE")
    there = steps.place(job.id)
    nodes = chosen(there.nodes, steps.names(nodelist) if nodelist else (), all_nodes)
    inner = command if host else ["bash", str(paths.enter), *command]
    line = steps.argv(there._replace(nodes=nodes), inner, pty, labelled=True)
    return shell.hand_over(line, steps.environment())
