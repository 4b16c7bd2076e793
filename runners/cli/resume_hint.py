"""A job that stopped early, its work saved: what is said, and the command that goes on."""

from __future__ import annotations

from pathlib import Path

from ..core import job_record
from ..core.job_record import Job, JobPaths, Status
from ..core.remedy import change
from . import suggest


def lines(paths: JobPaths, job: Job, status: Status) -> list[str]:
    """Return what to print of its end."""
    why = f" ({status.reason})" if status.reason else ""
    step = job_record.saved_step(paths)
    saved = f"checkpoint at step {step} saved" if step is not None else "no checkpoint of ours"
    lines = [f"runner: job {job.id} stopped early{why}: {saved}, exit code {status.exit_code}"]
    go_on = command(paths, job)
    return [*lines, *([f"  go on: {go_on}"] if go_on else []), f"  log: {job.log}"]


def command(paths: JobPaths, job: Job) -> str:
    """Return the launch that goes on from the checkpoint; empty for one that has none of ours."""
    typed = suggest.of_job(job)
    if typed is None or job_record.saved_step(paths) is None:
        return ""
    # A container shows the current folder by itself.
    seen = Path(job.typed.cwd) in paths.root.parents
    bind = [] if seen else [f"{paths.root}:{paths.root}:ro"]
    return suggest.text(change(arguments={"--resume": paths.root}, bind=bind), typed)
