"""Finds runs by job ID, name or folder, and the folders that contain runs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import NotFound, UsageError
from ..core.files import entries
from ..core.job_record import ArrayPaths, Job, JobPaths, load
from ..schedulers import SCHEDULERS

Run = tuple[JobPaths, Job]
Runs = Sequence[Run]
LISTED = 5  # other folders with runs of the user's
MOST_FOLDERS = 50


def all_runs(runs_dir: Path) -> list[Run]:
    """Return the submitted runs below `runs_dir`, oldest first."""
    runs = [JobPaths(path) for path in entries(runs_dir) if (path / "job.json").is_file()]
    return sorted(((paths, load(paths)) for paths in runs), key=lambda run: run[1].submitted)


def find(word: str | None, runs_dir: Path) -> Run:
    """Return the run that `word` refers to (see find_all); the last by default.

    Raises NotFound, and UsageError when these are several.
    """
    runs = find_all(word, runs_dir)
    if len(runs) > 1:
        first, last = runs[0][1], runs[-1][1]
        raise UsageError(
            f"{word or first.array} is {len(runs)} runs, {first.id} to {last.id}",
            "say which one you mean",
            f"runner status {word or first.array}",
            id="run-ambiguous",
        )
    return runs[0]


def find_all(word: str | None, runs_dir: Path) -> list[Run]:
    """Return the runs that `word` refers to: a job ID, a name, a folder (default: the last).

    Runs that were submitted together have a number and a name in common, which mean all of them.
    Raises NotFound.
    """
    folder = Path(word).absolute() if word else None
    if folder and (folder / "job.json").is_file():
        paths = JobPaths(folder)
        return [(paths, load(paths))]
    if folder and ArrayPaths(folder).tasks.is_dir():
        word, runs_dir = folder.name, folder.parent
    runs = all_runs(runs_dir)
    meant = _meant(word, runs)
    if not meant:
        what = f"is no run or job {word!r}" if word else "are no runs"
        raise NotFound(
            f"there {what} in {runs_dir}", *_elsewhere(word, runs_dir), id="run-not-found"
        )
    return meant


def _elsewhere(word: str | None, runs_dir: Path) -> tuple[str, str]:
    """Return where else a run is, or where any are, and the command to go on with."""
    others = other_folders(runs_dir)
    for folder in others:
        if word and _meant(word, all_runs(folder)):
            return f"it is in {folder}", f"--runs-dir {shlex.quote(str(folder))}"
    listed = others[:LISTED]
    evidence = f"you have runs in {', '.join(str(folder) for folder in listed)}" if listed else ""
    return evidence, "runner list, or --runs-dir DIR"


def _meant(word: str | None, runs: list[Run]) -> list[Run]:
    """Return the last run of that number or name, or those of an array; by default the last."""
    if not word:
        return _together(runs[-1][1].array, runs) or runs[-1:] if runs else []
    matching = [run for run in runs if word in (run[1].id, run[0].root.name)]
    return matching[-1:] or _together(word, runs)


def _together(word: str, runs: list[Run]) -> list[Run]:
    """Return the runs of the last array of that name or number."""
    members = [run for run in runs if run[1].array and word in (run[1].array, number(run[1].id))]
    return [run for run in members if run[1].array == members[-1][1].array]


def facts(paths: JobPaths, job: Job) -> dict[str, Any]:
    """Return which run it is, for programs."""
    return {"id": job.id, "folder": str(paths.root), "log": job.log, "varied": dict(job.varied)}


def number(id: str) -> str:
    """Return the number of a job's array, 123 of 123_4 and of 123[4].server; another's own id."""
    return re.sub(r"(_\d+|\[\d*\].*)$", "", id)


def whole_id(job: Job) -> str:
    """Return the identifier of the array of which a job is a task; another job's own."""
    arrays = SCHEDULERS[job.scheduler].ARRAYS
    return arrays.whole_id(job.id) if arrays else job.id


def _folders_file() -> Path:
    """Return the file, with one path a line (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base, "runner", "runs-folders")


def _known_folders() -> list[Path]:
    """Return the folders that are still there, the one used last at the end."""
    try:
        lines = _folders_file().read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [Path(line) for line in lines if os.path.isdir(line)]


def remember(folder: Path) -> None:
    """Note a folder; where the home has no room its runs are not found from elsewhere."""
    if "\n" in str(folder) or folder in _known_folders()[-1:]:
        return
    lines = [str(known) for known in _known_folders() if known != folder][1 - MOST_FOLDERS :]
    with contextlib.suppress(OSError):
        _folders_file().parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in (*lines, folder))
        _folders_file().write_text(text, encoding="utf-8", errors="surrogateescape")


def other_folders(than: Path) -> list[Path]:
    """Return the folders but for one, the one used last first."""
    return [folder for folder in reversed(_known_folders()) if folder != than]
