"""Runs that failed, made for a test: log, records, plan, job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.contract.enums import Controller
from runners.core import plan_record
from runners.core.command_line import CommandLine, Given
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import (
    Dataset,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Launching, Plan, Wireup
from runners.core.trainer import Trainer
from runners.explain.explanation import Explanation
from runners.explain.judge import explain

from ..failures import leave, words

TYPED = CommandLine(settings=(Given("image", "a.sif"),), trainer="t.py")
FAILED = Status(JobState.FAILED, "NonZeroExitCode", 1)
NOTHING_ASKED = Resources()
OWN = Trainer("t", None, Path("/w/t.py"))
RECIPE = Trainer("torch_mnist", "recipes.torch_mnist", None)


def made(folder: Path, text: str, *records: tuple[int, float, str]) -> tuple[JobPaths, Job]:
    """Return a run with this log, and records of (rank, time, error)."""
    paths = JobPaths(folder / "t-1")
    paths.log.parent.mkdir(parents=True)
    paths.failures.mkdir()
    paths.log.write_text(text)
    for rank, time, error in records:
        leave(paths, rank, time, words(error))
    return paths, Job("42", "t", SchedulerName.SLURM, str(paths.log), 1.0, typed=TYPED)


def explained(folder: Path, text: str, *records: tuple[int, float, str]) -> Explanation:
    """Return the explanation of such a run, which failed."""
    return explain(*made(folder, text, *records), FAILED)


def launched(job: Job, **settings: str) -> Job:
    """Return the job as launched with these settings."""
    given = tuple(Given(name.replace("_", "-"), value) for name, value in settings.items())
    return replace(job, typed=replace(job.typed, settings=(*job.typed.settings, *given)))


def planned(
    paths: JobPaths,
    runtime: str = "apptainer",
    resources: Resources = NOTHING_ASKED,
    data: tuple[Dataset, ...] = (),
    trainer: Trainer = OWN,
    request: Mapping[str, Any] | None = None,
    **decisions: Any,
) -> None:
    """Leave the plan of the run; `request` are further fields of what was asked for."""
    image = ImageInfo(Path("a.sif"))
    spec = JobSpec("t", image, trainer, resources, Path("r"), data=data, **(request or {}))
    launching, wireup = (
        Launching(SchedulerName.SLURM, RuntimeName(runtime), LauncherName.SRUN),
        Wireup(Controller.MPI, "pmix"),
    )
    plan_record.write(paths, Plan(spec, resources, launching, wireup, **decisions))


def saved(paths: JobPaths, step: int) -> None:
    """Leave a checkpoint of this step."""
    paths.checkpoints.mkdir()
    (paths.checkpoints / f"step-{step}.json").write_text("{}")
