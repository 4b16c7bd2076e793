"""Everything that is known of a job, read from its run's folder; the log in one pass."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..contract import failure_kinds as kinds
from ..contract.failure_kinds import FailureKind
from ..core import files, job_record, plan_record
from ..core.command_line import CommandLine
from ..core.disk_space import free_bytes
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.model import Resources, SchedulerName
from ..core.plan_record import PlanRecord
from ..settings import trainers
from . import first_failure, lost_ranks, read_log
from .facts import Facts, Failure, FirstFailure, LogFacts, LogPattern

# What a record's field holds, a text if it is not here; in a list, all it has are of one form.
TEXTS, RANKS = [str], [[int, str]]
ABSENT = ("ended", "late", "silent", "unreached")
FORMS: Mapping[str, Any] = {
    **dict.fromkeys(("exit_code", "signal", "tasks", "world", "port"), int),
    **dict.fromkeys(("rank", "size"), (int, type(None))),
    **dict.fromkeys(("traceback", "evidence", "alone", "imports", "wanted", "usable"), TEXTS),
    **dict.fromkeys(ABSENT, RANKS),
    "time": (int, float),
    "guessed": bool,
    "asked": [int],
}
OF_ALL = ("rank", "size", "host", "exit_code", "message", "time")
# An older runner's may lack these.
MAY_LACK = {"size", "error", "traceback", "guessed", "signal", "asked", "imports", "evidence"}
MAY_LACK.update(ABSENT)


def facts(paths: JobPaths, job: Job, status: Status, patterns: Sequence[LogPattern]) -> Facts:
    """Return the facts of a job. Raises SystemFault when something is there but unreadable."""
    failed = failures(paths)
    lines = _log(paths, job, failed, patterns)
    first = first_failure.of(failed, lines)
    return Facts(
        paths,
        job,
        status.state,
        status.reason,
        status.exit_code,
        failures=failed,
        first=first_failure.with_own_error(first, lines),
        log=lines,
        plan=plan(paths, job),
        saved=job_record.saved_step(paths),
        free=_free(paths),
        image_newer=_image_newer(job),
        scratch=os.environ.get("SCRATCH", ""),
        user=os.environ.get("USER", ""),
    )


def of_text(path: Path, name: str, patterns: Sequence[LogPattern]) -> Facts:
    """Return the facts of a log alone, which evidence calls `name`; the job's state is unknown.

    Raises OSError when the file cannot be read.
    """
    log = read_log.read(path, patterns, name=name)
    first = first_failure.with_own_error(first_failure.of((), log), log)
    job = Job("JOB", name, SchedulerName.SLURM, name, 0.0)
    return Facts(JobPaths(path.parent), job, JobState.UNKNOWN, first=first, log=log, of_text=True)


def plan(paths: JobPaths, job: Job) -> PlanRecord:
    """Return what was decided; where an older runner's plan lacks it, what the launch asked for.

    Raises SystemFault as `plan_record.read`.
    """
    return plan_record.read(paths, _launched(job.typed, job.image))


def _launched(typed: CommandLine, image: str) -> PlanRecord:
    """Return the decisions that a launch tells: those that follow from nothing else."""

    def texts(name: str) -> tuple[str, ...]:
        return tuple(map(str, typed.values(name)))

    return PlanRecord(
        command=trainers.as_launched(typed.trainer, typed.args),
        image=typed.text("image") or image,
        data=tuple(path for path in texts("data") if path.startswith("/")),
        binds=texts("bind"),
        env=tuple(variable.partition("=")[0] for variable in texts("env")),
        sbatch_args=texts("sbatch-arg"),
        resources=Resources(mem=typed.text("mem") or None, time=typed.text("time") or None),
    )


def first(paths: JobPaths, job: Job) -> FirstFailure | None:
    """Return the rank that failed first, None when none left a trace."""
    failed = failures(paths)
    return first_failure.of(failed, _log(paths, job, failed, ()))


def first_recorded(paths: JobPaths) -> FirstFailure | None:
    """Return the rank that failed first as the records alone have it, without reading the log."""
    return first_failure.of(failures(paths), LogFacts())


def exit_code(paths: JobPaths, job: Job) -> int | None:
    """Return the exit code of the rank that failed first; None where nobody knows it."""
    failed = first(paths, job)
    if failed is None:
        return None
    return failed.record.exit_code if failed.record else lost_ranks.exit_code(failed.how)


def failures(paths: JobPaths) -> tuple[Failure, ...]:
    """Return the ranks' records, those to blame first: the earliest that did not follow another.

    Where another user has taken rank 0's port, the other ranks may have failed earlier by that.
    Raises SystemFault for one that a newer runner wrote.
    """
    record_files = sorted(paths.failures.glob("rank-*.json")) if paths.failures.is_dir() else []
    records = [(path, files.read_json(path)) for path in record_files]
    try:
        failures = [_failure(path, record) for path, record in records if record]
        failures.sort(key=_to_blame)
    except files.DAMAGED as error:
        raise SystemFault(
            f"cannot read {paths.failures}", f"{error!r}", id="failures-unreadable"
        ) from None
    return tuple(failures)


def _to_blame(failure: Failure) -> tuple[bool, bool, float]:
    """Return the place of a failure among the others, the first to blame before all."""
    return failure.kind != FailureKind.PORT_TAKEN, failure.follower, failure.time


def _failure(path: Path, record: dict[str, Any]) -> Failure:
    version, kind = record.get("version", 0), FailureKind.of(record.get("kind"))
    if version > kinds.VERSION:
        raise SystemFault(
            f"cannot read {path}: a newer runner wrote it (version {version})",
            id="failures-of-newer-version",
        )
    of_kind = kinds.KINDS[kind] if kind else ()
    for name in (*OF_ALL, *of_kind):
        if name not in record and name in MAY_LACK:
            continue
        if not _fits(record[name], FORMS.get(name, str)):
            raise ValueError(f"{name} of {path.name} is {record[name]!r}")
    fields = {name: record[name] for name in of_kind if name in record}
    return Failure(
        record["rank"],
        record["host"],
        record["exit_code"],
        record["message"],
        record["time"],
        f"failures/{path.name}",
        kind,
        record.get("size"),
        fields,
        str(fields.get("error", "")),
        tuple(fields.get("traceback", ())),
        bool(fields.get("guessed")),
        int(fields.get("signal", 0)),
    )


def _fits(value: Any, form: Any) -> bool:
    if not isinstance(form, list):
        return isinstance(value, form)
    if not isinstance(value, list):
        return False
    forms = form if form[1:] else form * len(value)
    return len(value) == len(forms) and all(map(_fits, value, forms))


def _log(
    paths: JobPaths, job: Job, failed: Sequence[Failure], patterns: Sequence[LogPattern]
) -> LogFacts:
    path = Path(job.log)
    name = os.path.relpath(path, paths.root) if paths.root in path.parents else str(path)
    first = failed[0] if failed else None
    who = f"{first.rank}@{first.host}" if first else ""
    if first and first.follower and not first.error:  # another's lines say why
        who = ""
    beside = Path(job.error) if job.error else None
    try:
        return read_log.read(path, patterns, who, name, beside)
    except OSError as error:
        raise SystemFault(f"cannot read {path}", str(error), id="job-log-unreadable") from None


def _image_newer(job: Job) -> bool:
    try:
        return bool(job.image) and Path(job.image).stat().st_mtime > job.submitted
    except OSError:  # gone, or a name in the store
        return False


def _free(paths: JobPaths) -> int | None:
    try:
        return free_bytes(paths.root)
    except OSError:  # the folder has been taken away
        return None
