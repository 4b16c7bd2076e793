"""A run on disk: its folder, the job behind it, and what can be said of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from .errors import NotFound, SystemFault


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
    def checkpoints(self) -> Path:
        """The trainer's checkpoints; each is there once it has its manifest, step-N.json."""
        return self.root / "checkpoints"

    @property
    def result(self) -> Path:
        """What the trainer says it reached."""
        return self.root / "result.json"


@dataclass(frozen=True)
class Job:
    """A submitted job. `state` and `restart` were seen after its end, "" and 0 before.

    `restart` counts how often it came back, `restarts` is how often it may; `words` is what was
    typed to launch it.
    """

    id: str
    name: str
    scheduler: str
    log: str
    submitted: float
    state: str = ""
    restarts: int = 0
    words: Sequence[str] = ()
    restart: int = 0

    def save(self, paths: JobPaths) -> None:
        """Write it into the run's folder, whole or not at all."""
        write_json(paths.job, asdict(self))


def next_folder(runs_dir: Path, name: str) -> Path:
    """Return the folder of the next run of this name: `runs/NAME-1`, `runs/NAME-2`, ..."""
    stem = name.replace("/", "_")
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    there = [pattern.fullmatch(path.name) for path in _entries(runs_dir)]
    return runs_dir / f"{stem}-{max((int(m.group(1)) for m in there if m), default=0) + 1}"


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def all_runs(runs_dir: Path) -> list[tuple[JobPaths, Job]]:
    """Return the submitted runs below `runs_dir`, oldest first."""
    runs = [JobPaths(path) for path in _entries(runs_dir) if (path / "job.json").is_file()]
    return sorted(((paths, load(paths)) for paths in runs), key=lambda run: run[1].submitted)


def load(paths: JobPaths) -> Job:
    """Return the job of a run's folder; raise SystemFault when its record is unreadable."""
    try:
        return Job(**json.loads(paths.job.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SystemFault(f"cannot read {paths.job}", str(error)) from None


def find(word: str | None, runs_dir: Path) -> tuple[JobPaths, Job]:
    """Return the run that `word` means: a job number, a run's name or folder; the last by default.

    Raises NotFound.
    """
    if word and (Path(word) / "job.json").is_file():
        paths = JobPaths(Path(word).absolute())
        return paths, load(paths)
    runs = all_runs(runs_dir)
    matching = [run for run in runs if word in (None, run[1].id, run[0].root.name)]
    if not matching:
        what = f"no run or job {word!r}" if word else "no runs"
        raise NotFound(f"there is {what} in {runs_dir}", remedy="runner list, or --runs-dir DIR")
    return matching[-1]


def exit_code(paths: JobPaths) -> int | None:
    """Return the exit code that the script recorded, None while there is none."""
    record = read_json(paths.exit)
    return None if record is None else int(record["exit_code"])


def saved_step(paths: JobPaths) -> int | None:
    """Return the step of the newest checkpoint, None when there is none."""
    names = [path.stem.partition("-")[2] for path in paths.checkpoints.glob("step-*.json")]
    return max((int(name) for name in names if name.isdigit()), default=None)


def first_failure(paths: JobPaths) -> dict[str, Any] | None:
    """Return the record of the rank to blame: the earliest one, preferably not a follower.

    A rank whose peer died fails too, within the same second, with Horovod's own error.
    """
    folder = paths.failures
    records = [read_json(path) for path in folder.glob("rank-*.json")] if folder.is_dir() else []
    found = [record for record in records if record]
    return min(found, key=lambda record: (is_follower(record), record["time"]), default=None)


def is_follower(record: dict[str, Any]) -> bool:
    """Whether a rank failed because another had: Horovod or the rendezvous says so, or srun did it.

    A rank that srun ends with SIGKILL leaves no record, so one that tells of SIGKILL is a cause.
    """
    told = ("HorovodInternalError", "Horovod has been shut down", "ended before all had met")
    return record["exit_code"] == 128 + 15 or any(words in record["message"] for words in told)


def read_json(path: Path) -> Any:
    """Return a JSON file's content, None when it does not exist."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SystemFault(f"cannot read {path}", str(error)) from None


def write_json(path: Path, value: Any) -> None:
    """Write by rename, so that nobody reads half a file."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
