"""A job that stopped early, its work saved: what is told, and the command that goes on."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..core import job_record
from ..core.job_record import Job, JobPaths
from ..jobs.job_status import Status


def told(paths: JobPaths, job: Job, status: Status) -> list[str]:
    """Return what to print of its end."""
    why = f" ({status.reason})" if status.reason else ""
    step = job_record.saved_step(paths)
    saved = f"checkpoint at step {step} saved" if step is not None else "no checkpoint of ours"
    lines = [f"runner: job {job.id} stopped early{why}: {saved}, exit code {status.exit_code}"]
    go_on = command(paths, job)
    return [*lines, *([f"  go on: {go_on}"] if go_on else []), f"  log: {job.log}"]


def command(paths: JobPaths, job: Job) -> str:
    """Return the launch that goes on from the checkpoint; empty for one that has none of ours."""
    if not job.words or job_record.saved_step(paths) is None:
        return ""
    words = list(job.words)
    split = words.index("--") if "--" in words else len(words)
    options, args = words[:split], _without_resume(words[split + 1 :])
    if Path.cwd() not in paths.root.parents:  # a container shows the current folder by itself
        options.insert(1, f"--bind={paths.root}:{paths.root}:ro")
    return shlex.join(["runner", *options, "--", *args, "--resume", str(paths.root)])


def _without_resume(args: list[str]) -> list[str]:
    kept: list[str] = []
    for place, word in enumerate(args):
        follows = place > 0 and args[place - 1] == "--resume"
        if word != "--resume" and not follows and not word.startswith("--resume="):
            kept.append(word)
    return kept
