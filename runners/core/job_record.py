"""A run on disk: its folder, its job and the job's status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ..contract import run_files
from . import command_line
from .command_line import CommandLine
from .errors import SystemFault
from .files import DAMAGED, entries, from_json, read_json, read_versioned, write_versioned
from .model import SchedulerName

# Forms of what we write: another number where a reader of the old one would go wrong.
JOB_FORM, EXIT_FORM = 2, 1
LIMIT = "restarts"  # the name of Job.requeue_limit in job.json
# A job's number goes to programs of the scheduler, for which it must not look like an option.
ID = re.compile(r"\w[\w.+\[\]-]*")


class JobState(Enum):
    """States of a job, in Slurm's words; UNKNOWN is the default of every mapping.

    STOPPED is ours: the ranks saved a checkpoint, on a signal, and can resume from it.
    """

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "time limit"
    PREEMPTED = "preempted"
    NODE_FAIL = "node failure"
    OUT_OF_MEMORY = "out of memory"
    STOPPED = "stopped early"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen; an unknown job has ended too."""
        return self not in (JobState.PENDING, JobState.RUNNING)


class Status(NamedTuple):
    """The status of a job, as its scheduler reports it; unknown fields are empty or None.

    `exit_code` is the script's own, which its folder tells. `restart` counts how often it came
    back; `nodes` are as the scheduler writes them, such as n[1-4]; `elapsed` and `left` are
    seconds, `left` to the time limit; `start` is when a job that waits is expected to start, in
    Unix time.
    """

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    restart: int = 0
    nodes: str = ""
    elapsed: float | None = None
    left: float | None = None
    start: float | None = None


class PathBelow:
    """A path below `root`, as an attribute, and what it holds: a row of docs/reference/files.md."""

    def __init__(self, path: str, holds: str) -> None:
        self.path, self.holds = path, holds

    def __get__(self, paths: Folder, owner: object = None) -> Path:
        return paths.root / self.path


@dataclass(frozen=True)
class Folder:
    """A folder whose paths are attributes."""

    root: Path


class JobPaths(Folder):
    """Every path of a run, below its folder `root`."""

    script = PathBelow("job.sbatch", "The job script, exactly as submitted.")
    plan = PathBelow("plan.json", "The decisions, and the choices with their reasons.")
    job = PathBelow(run_files.JOB, "The job's number, scheduler and log, written after submission.")
    log = PathBelow("logs/job.log", "The merged log of all ranks, unless --output said otherwise.")
    exit = PathBelow(run_files.EXIT, "The exit code, which the script writes last.")
    stopped = PathBelow(
        run_files.STOPPED, "Written by ranks that saved their work and stopped early."
    )
    failures = PathBelow(run_files.FAILURES, "One record for each rank that failed.")
    stacks = PathBelow(
        "stacks", "For its owner alone: where each rank was when the job stalled, and NCCL's view."
    )
    weights = PathBelow(
        run_files.WEIGHTS, "Whether all ranks have the same weights, as a JSON object."
    )
    use = PathBelow(run_files.USE, "What the job used of each node: CPU time, memory, GPUs.")
    starts = PathBelow("starts.jsonl", "When the script began and ended, at each start.")
    code = PathBelow("code", "The shim (wrapper) as of submission.")
    injob = PathBelow("code/injob", "What of it is ours: the shim and its kind (runners/injob).")
    enter = PathBelow("code/enter", "The script that runs a command in the run's container.")
    private = PathBelow(
        "private", "For its owner alone: values of --env, a session's token, address."
    )
    env = PathBelow("private/env.sh", "The values of --env, which the scripts read.")
    tensorboard = PathBelow("tensorboard", "What the trainer wrote for TensorBoard.")
    profile = PathBelow(
        run_files.PROFILE, "What --profile-with wrote, or --profile of a packaged trainer."
    )
    boards = PathBelow("boards", "Links to what a session of TensorBoard shows.")
    checkpoints = PathBelow("checkpoints", "Each is there once it has its manifest, step-N.json.")
    metrics = PathBelow("metrics.jsonl", "Training metrics of rank 0, as JSON lines.")
    result = PathBelow(run_files.RESULT, "The trainer's final metrics.")


class ArrayPaths(Folder):
    """Every path of runs that were submitted together, below a folder `root` beside theirs."""

    script = PathBelow(
        "job.sbatch", "The script that was submitted: it starts the script of one run."
    )
    log = PathBelow("job.log", "What that script itself says, where the runs' logs do not have it.")
    tasks = PathBelow("tasks", "Links to the folders of the runs, by the number of the task.")


@dataclass(frozen=True)
class Job:
    """A submitted job. `state`, `restart`, `nodes` and `elapsed` were seen at its end.

    `restart` counts how often it came back, `requeue_limit` is how often it may; `typed` is the
    command that launches it, and it alone; `nodes` and `elapsed` (seconds) are its scheduler's;
    `host` is the machine that runs it, where no scheduler is in between. `array` names the folder
    of the runs that were submitted with it, and `varied` are the arguments in which it differs from
    them. `image` is the path, or the store's name, of what it runs in, `digest` its own where that
    is known. `reason` is the scheduler's for the end. A `private` record has values of --env in
    `typed`: only its owner reads it. `error` is the file of --error, "" for none.
    """

    id: str
    name: str
    scheduler: SchedulerName
    log: str
    submitted: float
    state: str = ""
    requeue_limit: int = 0
    restart: int = 0
    nodes: str = ""
    elapsed: float | None = None
    host: str = ""
    array: str = ""
    varied: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    digest: str = ""
    reason: str = ""
    private: bool = False
    error: str = ""
    typed: CommandLine = field(default_factory=CommandLine)

    def save(self, paths: JobPaths) -> None:
        record = {**vars(self), "typed": command_line.as_json(self.typed)}
        record[LIMIT] = record.pop("requeue_limit")
        write_versioned(paths.job, JOB_FORM, record, self.private)


def next_folder(runs_dir: Path, name: str) -> Path:
    """Return the folder of the next run of this name: `runs/NAME-1`, `runs/NAME-2`, ...

    Runs that were submitted together have one number: `runs/NAME-3_0`, `runs/NAME-3_1`, ...
    """
    stem = name.replace("/", "_")
    pattern = re.compile(re.escape(stem) + r"-(\d+)(?:_\d+)?")
    matches = [pattern.fullmatch(path.name) for path in entries(runs_dir)]
    return runs_dir / f"{stem}-{max((int(m.group(1)) for m in matches if m), default=0) + 1}"


def load(paths: JobPaths) -> Job:
    """Return the job of a run's folder.

    Raises SystemFault when its record is unreadable, Refused when it is of another form.
    """
    record = read_versioned(paths.job, JOB_FORM)
    if record is None:
        raise SystemFault(f"cannot read {paths.job}", "it does not exist", id="job-record-missing")
    try:
        record["requeue_limit"] = record.pop(LIMIT, 0)
        job = from_json(
            Job, record, {"CommandLine": command_line.read, "SchedulerName": SchedulerName}
        )
        if not ID.fullmatch(job.id):
            raise ValueError(f"{job.id!r} is no job's number")
        return job
    except DAMAGED as error:
        raise SystemFault(
            f"cannot read {paths.job}", str(error), id="job-record-unreadable"
        ) from None


def exit_code(paths: JobPaths) -> int | None:
    """Return the exit code that the script recorded, None while there is none."""
    record = read_versioned(paths.exit, EXIT_FORM)
    return None if record is None else int(record["exit_code"])


def result(paths: JobPaths) -> tuple[dict[str, Any] | None, str]:
    """Return what the trainer wrote in result.json, and why it cannot be read if it is odd."""
    try:
        return read_json(paths.result), ""
    except SystemFault as error:  # the trainer's own fault: the job ended as it did
        return None, f"{error.what}: {error.evidence}"


def saved_step(paths: JobPaths) -> int | None:
    """Return the step of the newest checkpoint, None when there is none."""
    names = [path.stem.partition("-")[2] for path in paths.checkpoints.glob("step-*.json")]
    return max((int(name) for name in names if name.isdigit()), default=None)
