"""From the plan to a job in the queue: writes the run's folder, then submits its script."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from . import script
from .data.script import HELPER
from .errors import NotFound, Refused, RunnerError, SystemFault, UsageError
from .hostmpi import CHECK
from .jobs import Job, JobPaths, next_folder, write_json
from .model import Plan
from .schedulers import SCHEDULERS
from .trainers import recipes_folder

# A run writes logs, metrics and checkpoints; less than this would be lost within the first epoch.
BYTES_NEEDED = 64 * 2**20


@dataclass(frozen=True)
class Draft:
    """What a launch is going to do, before it touches anything.

    `packages` are folders of Python modules that go into the run's folder, beside the shim;
    `words` is what was typed for it.
    """

    plan: Plan
    paths: JobPaths
    text: str
    packages: tuple[Path, ...] = ()
    words: tuple[str, ...] = ()


def draft(plan: Plan, packages: tuple[Path, ...] = (), words: tuple[str, ...] = ()) -> Draft:
    """Return the script and the folder for it; nothing is written."""
    paths = JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name))
    return Draft(plan, paths, script.render(plan, paths, os.getcwd()), packages, words)


def submit(draft: Draft) -> Job:
    """Write the run's folder and submit; when that fails, remove the folder and raise."""
    _check_output(draft.plan)
    _check_space(draft.plan.spec.runs_dir)
    try:
        draft.paths.root.mkdir(parents=True)
        _write(draft)
        return _hand_over(draft)
    except OSError as error:
        shutil.rmtree(draft.paths.root, ignore_errors=True)
        raise SystemFault(f"cannot write the run's folder {draft.paths.root}", str(error)) from None
    except RunnerError:
        shutil.rmtree(draft.paths.root, ignore_errors=True)
        raise


def _write(draft: Draft) -> None:
    paths = draft.paths
    paths.log.parent.mkdir()
    own = [Path(__file__).parent / "rank"]
    own += [CHECK] * bool(draft.plan.host_mpi) + [HELPER] * draft.plan.staged
    for package in (*own, *draft.packages):
        _copy_package(package, paths.code / package.name)
    if draft.plan.brings_recipe:
        _copy_package(recipes_folder(), paths.code / "recipes")
    paths.script.write_text(draft.text, encoding="utf-8")
    write_json(paths.plan, [asdict(decision) for decision in draft.plan.decisions])


def _copy_package(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _hand_over(draft: Draft) -> Job:
    plan, paths = draft.plan, draft.paths
    log = Path(plan.spec.output) if plan.spec.output else paths.log
    id = SCHEDULERS[plan.scheduler].submit(paths, plan.spec.name, log)
    shown = _expand(str(log), id, plan.spec.name) if plan.spec.output else str(log)
    where = os.path.abspath(shown)
    name, scheduler = plan.spec.name, plan.scheduler
    job = Job(id, name, scheduler, where, time.time(), "", plan.restarts, draft.words)
    job.save(paths)
    return job


def _expand(pattern: str, id: str, name: str) -> str:
    """Fill in the parts of sbatch's file name patterns that are known here (sbatch(1))."""
    for mark, value in (("%j", id), ("%A", id), ("%x", name), ("%%", "%")):
        pattern = pattern.replace(mark, value)
    return pattern


def _check_output(plan: Plan) -> None:
    """Slurm drops a job's output without a word when the folder does not exist."""
    output = plan.spec.output or ""
    if plan.scheduler != "slurm" and "%" in output:
        raise UsageError(f"--output {output}: patterns with % need Slurm, which fills them in")
    folder = os.path.dirname(output)
    if folder and "%" not in folder and not os.path.isdir(folder):
        raise NotFound(f"--output {output}: the folder {folder} does not exist")


def _check_space(runs_dir: Path) -> None:
    there = next(path for path in (runs_dir, *runs_dir.parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise Refused(f"cannot write in {there}", remedy="--runs-dir DIR, on scratch")
    disk = os.statvfs(there)
    free = disk.f_bavail * disk.f_frsize
    if free < BYTES_NEEDED:
        raise Refused(
            f"no space for the run: {free / 2**20:.0f} MiB free on {there}",
            f"a run needs at least {BYTES_NEEDED // 2**20} MiB",
            "--runs-dir DIR, on another file system",
        )
