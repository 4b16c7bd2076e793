"""Everything that is known of a job, read from its run's folder; the log in one pass."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core import files, job_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths
from ..jobs.job_status import Status
from . import blame, log
from .model import Blame, Facts, Failure, LogFacts, Mark


def facts(paths: JobPaths, job: Job, status: Status, marks: Sequence[Mark]) -> Facts:
    """Return the facts of a job. Raises SystemFault when something is there but unreadable."""
    failed = _failures(paths)
    lines = _log(paths, job, failed, marks)
    first = blame.first(failed, lines)
    return Facts(
        paths, job, status.state, status.reason, status.exit_code, status.restart,
        failed, first, lines, _plan(paths), job_record.saved_step(paths), _free(paths),
        _image_newer(job),
    )  # fmt: skip


def first(paths: JobPaths, job: Job) -> Blame | None:
    """Return the rank that failed first, None when none left a trace."""
    failed = _failures(paths)
    return blame.first(failed, _log(paths, job, failed, ()))


def _failures(paths: JobPaths) -> tuple[Failure, ...]:
    """Return the ranks' records, those to blame first."""
    there = sorted(paths.failures.glob("rank-*.json")) if paths.failures.is_dir() else []
    records = [(path.name, files.read_json(path)) for path in there]
    found = [_failure(name, record) for name, record in records if record]
    return tuple(sorted(found, key=lambda one: (one.follower, one.time)))


def _failure(name: str, record: dict[str, Any]) -> Failure:
    rank, host, code = record["rank"], record["host"], record["exit_code"]
    follows = job_record.is_follower(record)
    file = f"failures/{name}"
    return Failure(
        rank,
        host,
        code,
        record["message"],
        record["time"],
        follows,
        file,
        record.get("guessed", False),
    )


def _log(paths: JobPaths, job: Job, failed: Sequence[Failure], marks: Sequence[Mark]) -> LogFacts:
    path = Path(job.log)
    name = os.path.relpath(path, paths.root) if paths.root in path.parents else str(path)
    who = f"{failed[0].rank}@{failed[0].host}" if failed else ""
    try:
        return log.read(path, marks, who, name)
    except OSError as error:
        raise SystemFault(f"cannot read {path}", str(error)) from None


def _image_newer(job: Job) -> bool:
    try:
        return bool(job.image) and Path(job.image).stat().st_mtime > job.submitted
    except OSError:  # gone, or a name in the store
        return False


def _free(paths: JobPaths) -> int | None:
    try:
        disk = os.statvfs(paths.root)
    except OSError:  # the folder has been taken away
        return None
    return disk.f_bavail * disk.f_frsize


def _plan(paths: JobPaths) -> dict[str, str]:
    return {one["what"]: one["value"] for one in files.read_json(paths.plan) or ()}
