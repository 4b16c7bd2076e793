"""`--dependency` in Slurm's form, which also accepts names of runs instead of job IDs.

afterok:first-1 waits for that run, afterok:first-2 for all runs of an array. What a run has reached
already is left out, since Slurm forgets jobs: MinJobAge seconds after its end it takes no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..core.errors import NotFound, Refused, UsageError
from ..core.job_record import Job, JobState
from ..core.model import SchedulerName
from ..core.remedy import command
from ..jobs import find_run, job_status
from ..jobs.find_run import Runs
from ..planning import execution
from ..planning.case import Case
from ..schedulers import SCHEDULERS, capabilities

KINDS = ("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok")
ALONE = ("singleton", "expand")


class Resolved(NamedTuple):
    """The dependency for the scheduler, None without one, and the explanation for people."""

    text: str | None
    reason: str


def of_case(case: Case) -> Case:
    """Return the case with the numbers of jobs where its dependency names runs of ours."""
    spec = case.spec
    scheduler = execution.expected_scheduler(spec.scheduler, case.site)
    if not capabilities(scheduler).queue:
        return case  # nothing waits there: the plan refuses it
    waits = resolve(spec.resources.dependency or "", scheduler, spec.runs_dir)
    resources = replace(spec.resources, dependency=waits.text)
    reasons = {**case.reasons, "dependency": waits.reason}
    return replace(case.asking(resources=resources), reasons=reasons)


def resolve(text: str, scheduler: SchedulerName, runs_dir: Path) -> Resolved:
    """Return the dependency with numbers of jobs alone.

    Raises UsageError for what is not in sbatch's form, NotFound for a
    run that does not exist, Refused for what cannot happen any more.
    """
    separator = "?" if "?" in text else ","
    reasons: list[str] = []
    left = []
    for part in text.split(separator):
        waits = _part(part, scheduler, runs_dir, reasons)
        if waits:
            left.append(waits)
        elif separator == "?":
            return Resolved(None, "; ".join(reasons))
    return Resolved(separator.join(left) or None, "; ".join(reasons) or "as requested")


def _part(part: str, scheduler: SchedulerName, runs_dir: Path, reasons: list[str]) -> str:
    """Return one condition, empty when it is met."""
    kind, colon, names = part.partition(":")
    if kind in ALONE:
        return part
    if kind not in KINDS or not colon or not all(names.split(":")):
        first = next((name for name in part.split(":") if name not in KINDS), "")
        raise UsageError(
            f"--dependency {part!r} is not a condition and jobs",
            f"the conditions are {', '.join(KINDS)} and singleton",
            f"--dependency afterok:{first or 'RUN'}",
            id="dependency-malformed",
        )
    job_ids = [_ids(kind, name, scheduler, runs_dir, reasons) for name in names.split(":")]
    ids = [id for some in job_ids for id in some]
    return ":".join([kind, *ids]) if ids else ""


def _ids(
    kind: str, name: str, scheduler: SchedulerName, runs_dir: Path, reasons: list[str]
) -> list[str]:
    """Return the numbers to wait for: of a run of ours, or the number that was given."""
    word, plus, minutes = name.partition("+")
    try:
        runs = find_run.find_all(word, runs_dir)
    except NotFound:
        if SCHEDULERS[scheduler].is_id(name):
            return [name]  # a job of which we know nothing; the scheduler does
        raise
    states = [status.state for status in job_status.statuses(runs)]
    _check_possible(kind, word, runs, states)
    how = ", ".join(sorted({state.value for state in states}))
    if all(state.ended for state in states):
        reasons.append(f"{word} has ended already ({how})")
        return []
    _check_scheduler(word, runs, scheduler)
    reasons.append(f"{word} is {how}")
    ids = [find_run.number(job.id) if len(runs) > 1 else job.id for _, job in runs]
    return [id + plus + minutes for id in dict.fromkeys(ids)]


def _check_scheduler(name: str, runs: Runs, scheduler: SchedulerName) -> None:
    foreign = next((job.scheduler for _, job in runs if job.scheduler != scheduler), None)
    if foreign:
        raise Refused(
            f"--dependency: {name} was started by {foreign}, and {scheduler} cannot wait for it",
            remedy=command("runner", "wait", name),
            id="dependency-other-scheduler",
        )


def _check_possible(kind: str, name: str, runs: Runs, states: Sequence[JobState]) -> None:
    """Refuse to wait for what has ended otherwise; Slurm would let such a job wait for ever."""
    ended = [(job, state) for (_, job), state in zip(runs, states) if state.ended]
    well = [entry for entry in ended if entry[1] == JobState.COMPLETED]
    against: list[tuple[Job, JobState]] = []
    if kind in ("afterok", "aftercorr"):
        against = [entry for entry in ended if entry not in well]
    elif kind == "afternotok" and len(well) == len(runs):
        against = well
    if against:
        job, state = against[0]
        raise Refused(
            f"--dependency {kind}:{name} can never be met: job {job.id} has ended",
            f"its state: {state.value}",
            "leave out --dependency",
            id="dependency-never-met",
        )
