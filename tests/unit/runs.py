"""Folders of runs, with the record of a submitted job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core import job_record, shell
from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.core.shell import Result


def a_run(folder: Path, **facts: object) -> tuple[JobPaths, Job]:
    paths = JobPaths(folder)
    folder.mkdir(parents=True)
    job = Job("42", "train", SchedulerName.SLURM, str(paths.log), 1.0)
    replace(job, **facts).save(paths)  # type: ignore[arg-type]
    return paths, job_record.load(paths)


def squeue_says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(0, text, ""))


def ends(paths: JobPaths, code: int) -> None:
    """Leave the exit code that a job's script records."""
    paths.exit.write_text(json.dumps({"exit_code": code, "time": 9.0}))
