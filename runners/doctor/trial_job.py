"""The trial, a short real job: how it differs from other launches, its submission and its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..contract.parts import TRIAL
from ..core import command_signals, files, job_record
from ..core.command_line import COMMAND, CommandLine
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.model import BindMount
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.trainer import Trainer
from ..launching import submit as submitting
from ..monitoring import follow
from ..runtimes import FILES
from ..settings import config

MINUTES = "5"
# Its arguments are added by `submit`; files, variables and flags may change its settings.
TRAINER = Trainer("doctor", TRIAL, None)
PRESET = config.ConfigLayer(COMMAND, {"time": MINUTES}, "runner doctor")
SECONDS_FOR_A_SLOW_DISK = 15.0  # a result may be seen some seconds after the job has ended (NFS)


@dataclass(frozen=True)
class Outcome:
    """The result of the job: its status, the trial's result (None without one), and its log.

    `odd` says why the result.json that is there is not the trial's.
    """

    paths: JobPaths
    job: Job
    status: Status
    result: dict[str, Any] | None
    log: str
    odd: str = ""


def submit(plan: Plan, typed: CommandLine) -> tuple[JobPaths, Job]:
    """Submit the trial, with the image file itself to be seen from within; raise as `launch`.

    `typed` is the command that asked for it.
    """
    image = plan.spec.image.path
    args = (str(image), str(plan.resources.tasks), plan.wireup.controller)
    plan = replace(plan, spec=replace(plan.spec, trainer=replace(TRAINER, args=args)))
    if image.exists() and plan.launching.runtime in FILES:
        image_bind = BindMount(str(image), str(image), read_only=True)
        plan = replace(plan, binds=(*plan.binds, image_bind))
    ((draft, job),) = submitting.submitted(plan, typed)
    return draft.paths, job


def wait(paths: JobPaths, job: Job, seconds: float, listener: Listener) -> Outcome:
    """Wait for the job's end, `seconds` at most, and return what it left; Ctrl-C leaves it be."""
    come_back = f"come back: runner doctor --run {paths.root}"
    with command_signals.saying(f"left job {job.id} running; {come_back}"):
        status = follow.wait(paths, job, seconds, listener)
    if status.state == JobState.COMPLETED:
        deadline = time.monotonic() + SECONDS_FOR_A_SLOW_DISK
        while not paths.result.exists() and time.monotonic() < deadline:
            time.sleep(0.5)
    text = files.read_text(Path(job.log))
    result, odd = job_record.result(paths)
    if result is not None and not isinstance(result.get("ranks"), list):
        result, odd = None, f"{paths.result} is not a result of the doctor's short job"
    return Outcome(paths, job, status, result, text, odd)
