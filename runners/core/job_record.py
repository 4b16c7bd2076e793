"""A run on disk: its folder, the job behind it, and what can be said of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from . import command_line
from .command_line import CommandLine
from .errors import SystemFault
from .files import entries, read_versioned, write_versioned

# Forms of what we write: another number where a reader of the old one would go wrong.
JOB_FORM, EXIT_FORM = 2, 1
OF_FORM_1 = ("words", "cwd")  # the command line in words, of which no command can be made


class JobState(Enum):
    """States of a job, in Slurm's words; UNKNOWN is the default of every mapping.

    STOPPED is ours: the ranks saved a checkpoint, on a signal, and can go on from it.
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


@dataclass(frozen=True)
class JobPaths:
    """Every path of a run, below its folder `root`."""

    root: Path

    @property
    def script(self) -> Path:
        """The script, exactly as submitted."""
        return self.root / "job.sbatch"

    @property
    def plan(self) -> Path:
        """The choices and their reasons."""
        return self.root / "plan.json"

    @property
    def job(self) -> Path:
        """The job's number, scheduler and log, written after submission."""
        return self.root / "job.json"

    @property
    def log(self) -> Path:
        """The merged log of all ranks, unless --output said otherwise."""
        return self.root / "logs" / "job.log"

    @property
    def exit(self) -> Path:
        """The exit code, written by the script as its last act."""
        return self.root / "exit.json"

    @property
    def stopped(self) -> Path:
        """Written by ranks that saved their work and stopped early."""
        return self.root / "stopped.json"

    @property
    def failures(self) -> Path:
        """One record for each rank that failed."""
        return self.root / "failures"

    @property
    def code(self) -> Path:
        """The shim as it was when the job was submitted."""
        return self.root / "code"

    @property
    def injob(self) -> Path:
        """What of it is ours: the shim and its kind (runners/injob)."""
        return self.code / "injob"

    @property
    def enter(self) -> Path:
        """The script that runs a command in the run's container."""
        return self.code / "enter"

    @property
    def private(self) -> Path:
        """What only the owner may read: the values of --env, a session's token and address."""
        return self.root / "private"

    @property
    def env(self) -> Path:
        """The values of --env, which the scripts read; for their owner alone."""
        return self.private / "env.sh"

    @property
    def tensorboard(self) -> Path:
        """What the trainer wrote for TensorBoard."""
        return self.root / "tensorboard"

    @property
    def boards(self) -> Path:
        """Links to what a session of TensorBoard shows."""
        return self.root / "boards"

    @property
    def checkpoints(self) -> Path:
        """The trainer's checkpoints; each is there once it has its manifest, step-N.json."""
        return self.root / "checkpoints"

    @property
    def metrics(self) -> Path:
        """What rank 0 of a packaged trainer says of each step and epoch, a JSON object a line."""
        return self.root / "metrics.jsonl"

    @property
    def result(self) -> Path:
        """What the trainer says it reached."""
        return self.root / "result.json"


@dataclass(frozen=True)
class ArrayPaths:
    """Every path of runs that were submitted together, below a folder `root` beside theirs."""

    root: Path

    @property
    def script(self) -> Path:
        """The script that was submitted; all it does is to start the script of one run."""
        return self.root / "job.sbatch"

    @property
    def log(self) -> Path:
        """What that script itself says, where no scheduler writes it into the runs' logs."""
        return self.root / "job.log"

    @property
    def tasks(self) -> Path:
        """Links to the folders of the runs, each named by the number of its task."""
        return self.root / "tasks"


@dataclass(frozen=True)
class Job:
    """A submitted job. `state`, `restart`, `nodes` and `elapsed` were seen at its end.

    `restart` counts how often it came back, `restarts` is how often it may; `typed` is the command
    that launches it, and it alone; `nodes` and `elapsed` (seconds) are its scheduler's; `host` is
    the machine that runs it, where no scheduler is in between. `array` names the folder of the runs
    that were submitted with it, and `varied` are the arguments in which it differs from them.
    `image` is the path, or the store's name, of what it runs in, `digest` its own where that is
    known. `reason` is the scheduler's for the end. A `private` record has values of --env in
    `typed`: only its owner reads it.
    """

    id: str
    name: str
    scheduler: str
    log: str
    submitted: float
    state: str = ""
    restarts: int = 0
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
    typed: CommandLine = field(default_factory=CommandLine)

    def save(self, paths: JobPaths) -> None:
        """Write it into the run's folder, whole or not at all."""
        record = {**vars(self), "typed": command_line.as_json(self.typed)}
        write_versioned(paths.job, JOB_FORM, record, self.private)


def next_folder(runs_dir: Path, name: str) -> Path:
    """Return the folder of the next run of this name: `runs/NAME-1`, `runs/NAME-2`, ...

    Runs that were submitted together have one number: `runs/NAME-3_0`, `runs/NAME-3_1`, ...
    """
    stem = name.replace("/", "_")
    pattern = re.compile(re.escape(stem) + r"-(\d+)(?:_\d+)?")
    there = [pattern.fullmatch(path.name) for path in entries(runs_dir)]
    return runs_dir / f"{stem}-{max((int(m.group(1)) for m in there if m), default=0) + 1}"


def load(paths: JobPaths) -> Job:
    """Return the job of a run's folder.

    Raises SystemFault when its record is unreadable, Refused when it is of another form.
    """
    record = read_versioned(paths.job, JOB_FORM, oldest=1)
    if record is None:
        raise SystemFault(f"cannot read {paths.job}", "it does not exist")
    typed = record.pop("typed", None)
    known = {name: value for name, value in record.items() if name not in OF_FORM_1}
    try:
        return Job(**known, typed=command_line.read(typed) if typed else CommandLine())
    except (KeyError, TypeError, ValueError) as error:
        raise SystemFault(f"cannot read {paths.job}", str(error)) from None


def exit_code(paths: JobPaths) -> int | None:
    """Return the exit code that the script recorded, None while there is none."""
    record = read_versioned(paths.exit, EXIT_FORM)
    return None if record is None else int(record["exit_code"])


def saved_step(paths: JobPaths) -> int | None:
    """Return the step of the newest checkpoint, None when there is none."""
    names = [path.stem.partition("-")[2] for path in paths.checkpoints.glob("step-*.json")]
    return max((int(name) for name in names if name.isdigit()), default=None)
