"""Interrupted and queued again: when the ranks are warned, and how often the job comes back."""

from __future__ import annotations

from typing import TypedDict

from ..core.model import JobSpec, Site, Variable
from ..schedulers import capabilities, time_limits
from .choices import Notes

LIMIT = 10  # restarts; also of those that Slurm makes itself, which it counts too
SECONDS = 120  # to end a step and to write a checkpoint; Slurm may warn a minute earlier
RESTARTS_PREEMPTED = (24, 11)  # the first known to do so when the script has ended; 22.05 does not
# Ran with Open MPI 5 on the host: a preempted job's mpirun lost its daemon, and ended with 0.
NOT_ALONG = {
    "horovodrun": "which passes no signals on to the ranks",
    "mpirun": "whose daemons a preempted job loses before the ranks have saved",
}
TRACKS_TASKS = "proctrack/cgroup"


class Interrupted(TypedDict, total=False):
    """The fields of a Plan that are decided here."""

    warning: int | None
    restarts: int
    slurm_restarts_preempted: bool


def choose(spec: JobSpec, site: Site, scheduler: str, launcher: str, notes: Notes) -> Interrupted:
    """Return when the ranks are warned, and how often the job may come back."""
    if not (spec.requeue or spec.signal is not None):
        return {}
    _possible(spec, scheduler, launcher, notes)
    found: Interrupted = {"restarts": _restarts(spec, scheduler, notes) if spec.requeue else 0}
    if capabilities(scheduler).warns:
        _signals_reach_only_ranks(site, notes)
        found["warning"] = _warning(spec, notes)
        found["slurm_restarts_preempted"] = _version(site.slurm_version) >= RESTARTS_PREEMPTED
    return found


def _warning(spec: JobSpec, notes: Notes) -> int:
    asked = spec.signal is not None
    seconds = spec.signal if spec.signal is not None else _seconds(spec.resources.time)
    reason = "as asked" if asked else "to end a step and save"
    evidence = "sbatch(1), --signal: it may come up to 60 s earlier"
    notes.choose("warning", f"{seconds} s before the time limit", reason, evidence)
    return seconds


def _version(text: str) -> tuple[int, ...]:
    """Return (24, 11) of "24.11.5"; nothing, which is less than any, where it is not known."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _restarts(spec: JobSpec, scheduler: str, notes: Notes) -> int:
    limit = spec.requeue_limit or LIMIT
    reason = "when the time is up, or another job comes first; it goes on from its checkpoint"
    there = capabilities(scheduler)
    if not there.warns:
        notes.choose(
            "requeue", f"by {there.title}", "when another job comes first, or a node fails"
        )
    else:
        notes.choose("requeue", f"up to {limit} times", reason)
    why = "a job that is queued again goes on"
    notes.variables.append(Variable("RESUME", "auto", why, where="image"))
    return limit


def _seconds(limit: str | None) -> int:
    """Return the seconds of warning, at most half of a short time limit."""
    whole = time_limits.seconds(limit) if limit else None
    return SECONDS if whole is None else min(SECONDS, whole // 2)


def _possible(spec: JobSpec, scheduler: str, launcher: str, notes: Notes) -> None:
    """Refuse what this scheduler, or who starts the ranks, would not do."""
    there = capabilities(scheduler)
    for option, remedy in _asked(spec):
        does_it_itself = there.requeues and not there.warns and option == "--requeue"
        if not there.warns and not does_it_itself:
            what = f"{scheduler} has none" if there.queue else "this machine has no queue"
            notes.refuse(f"{option} needs Slurm: {what}", "", remedy)
        elif launcher in NOT_ALONG and not does_it_itself:
            what = f"{option} does not go with --launcher {launcher}"
            notes.refuse(what, NOT_ALONG[launcher], "leave out --launcher")


def _asked(spec: JobSpec) -> list[tuple[str, str]]:
    """Return the options that were given, each with what to type instead."""
    asked = [("--requeue", "--no-requeue")] if spec.requeue else []
    if spec.requeue_limit:
        asked.append(("--requeue-limit", "leave out --requeue-limit"))
    return asked + ([("--signal", "leave out --signal")] if spec.signal is not None else [])


def _signals_reach_only_ranks(site: Site, notes: Notes) -> None:
    """Warn where Slurm signals every process of a rank: among them what shows it the image.

    Ran with proctrack/linuxproc: squashfuse ends by SIGUSR1 and by SIGTERM, and the ranks by a bus
    error before they have saved. proctrack/cgroup signals a task's first process only.
    """
    if site.proctrack not in ("", TRACKS_TASKS):
        notes.warn(
            f"this Slurm has ProctrackType={site.proctrack}: its signals also end the process that "
            "shows the ranks their image, before they can save; give --image a sandbox folder"
        )
