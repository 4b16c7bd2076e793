"""How runs stand: state, times, exit code, the newest numbers of the training; more of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import files, job_record
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.progress import Listener
from ..explain import read_facts
from ..explain.facts import FirstFailure
from ..jobs import job_status, metrics_tail
from ..jobs.find_run import Runs
from . import end, resource_use, stall_notice, stalls
from .resource_use import RunUse
from .stalls import Stall
from .wording import reason_in_words, stamp

NUMBERS = ("step", "steps", "epoch", "loss", "rate", "unit")  # of a reading


@dataclass(frozen=True)
class RunStatus:
    """How a run stands; what is not known is None or empty.

    `reason` is the scheduler's, `why` says in words why the run waits or how it ended. `restarts`
    counts how often the job came back. `exit_code` is that of `runner wait`, or the last attempt's
    of a job that comes back. `submitted` and `start_expected` are Unix times, `elapsed` and `left`,
    to the time limit, seconds. `varied` are the arguments in which it differs from the other runs
    of its array. `step` of `steps`, `epoch` and `loss` are the newest of its training, and `rate`
    is its `unit`, such as samples, a second.
    """

    id: str
    name: str
    state: JobState
    reason: str
    why: str
    restarts: int
    exit_code: int | None
    submitted: float
    start_expected: float | None
    nodes: str
    elapsed: float | None
    left: float | None
    folder: Path
    varied: Mapping[str, str]
    step: int | None
    steps: int | None
    epoch: int | None
    loss: float | None
    rate: float | None
    unit: str | None


@dataclass(frozen=True)
class RunDetails:
    """What else there is to say of one run.

    Of one that stopped early `saved_step` is that of its checkpoint and `resume` the launch that
    resumes from it. `stall` is that of one that runs. `weights` say whether all ranks have the
    same. `first_to_fail` is of one that failed.
    """

    status: RunStatus
    saved_step: int | None
    resume: str
    stall: Stall | None
    weights: Mapping[str, Any] | None
    use: RunUse | None
    first_to_fail: FirstFailure | None


def of_runs(runs: Runs, listener: Listener) -> list[RunStatus]:
    """Return how runs stand; raises as `job_status.last_known`."""
    pairs = zip(runs, job_status.last_known(runs, listener))
    return [of_run(paths, job, status) for (paths, job), status in pairs]


def of_run(paths: JobPaths, job: Job, status: Status) -> RunStatus:
    """Return how a run stands whose scheduler has been asked."""
    failed = status.state == JobState.FAILED
    first = read_facts.first_recorded(paths) if failed else None
    reading = metrics_tail.last(paths)
    return RunStatus(
        id=job.id,
        name=job.name,
        state=status.state,
        reason=status.reason,
        why=reason_in_words(status.reason) or str(first or ""),
        restarts=status.restart,
        exit_code=_exit_code(paths, job, status, first),
        submitted=job.submitted,
        start_expected=status.start,
        nodes=status.nodes,
        elapsed=status.elapsed,
        left=None if status.state.ended else status.left,
        folder=paths.root,
        varied=job.varied,
        **{name: getattr(reading, name, None) for name in NUMBERS},
    )


def _exit_code(paths: JobPaths, job: Job, status: Status, first: FirstFailure | None) -> int | None:
    """Return the exit code that `runner wait` has for a job; None while there is none.

    The log, which may be long, is read only where no rank's record tells of a cause.
    """
    if first and first.record and not first.record.follower:
        return end.exit_code_of(status, first.record.exit_code)
    known = status.state.ended and status.state != JobState.UNKNOWN
    return end.exit_code(paths, job, status) if known else status.exit_code


def details(paths: JobPaths, job: Job, listener: Listener) -> RunDetails:
    """Return how one run stands, what it used, and what else there is to say of it.

    Of one that makes no progress the nodes are asked who lags.
    """
    (status,) = of_runs([(paths, job)], listener)
    state = status.state
    stopped = state == JobState.STOPPED
    # Ranks of a job that Slurm ended, at its time limit say, were ended by it.
    failed = state in (JobState.FAILED, JobState.OUT_OF_MEMORY)
    return RunDetails(
        status,
        saved_step=job_record.saved_step(paths) if stopped else None,
        resume=end.resume_command(paths, job) if stopped else "",
        stall=stall_notice.of_job(paths, job) if state == JobState.RUNNING else None,
        weights=files.read_json(paths.weights),
        use=resource_use.of_run(paths),
        first_to_fail=read_facts.first(paths, job) if failed else None,
    )


def facts(status: RunStatus) -> dict[str, Any]:
    """Return how a run stands for programs: elapsed times in seconds, others as they are read."""
    return {
        **vars(status),
        "state": status.state.name,
        "submitted": stamp(status.submitted),
        "start_expected": stamp(status.start_expected),
        "folder": str(status.folder),
        "varied": dict(status.varied),
    }


def facts_of_details(known: RunDetails) -> dict[str, Any]:
    """Return for programs how one run stands, and what else there is to say of it."""
    more: dict[str, Any] = {}
    if known.status.state == JobState.STOPPED:
        more.update(saved_step=known.saved_step, go_on=known.resume)
    if known.stall:
        more["stalled"] = stalls.in_words(known.stall)
        more["ranks"] = [row._asdict() for row in known.stall.rows]
    if known.weights:
        said = (known.weights.get(name) for name in ("text", "warning"))
        words = "; warning: ".join(str(text) for text in said if text)
        more["weights"] = f"{known.weights.get('result')}: {words}"
    if known.use:
        more["use"] = known.use.value
    first = known.first_to_fail
    return {**facts(known.status), **more, "first_to_fail": str(first) if first else None}
