"""From the plan to a run's folder: the draft of a job, its files, and the record of the job."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, TypeVar

from .. import runtimes
from ..contract.run_files import TEMPORARY_KEY
from ..core import atomic, disk_space, plan_record, trust
from ..core.command_line import CommandLine
from ..core.errors import NotFound, Refused, SystemFault
from ..core.files import make_folder
from ..core.job_record import Job, JobPaths, next_folder
from ..core.model import JobSpec
from ..core.plan import Plan
from ..core.remedy import change
from ..jobs import find_run
from ..schedulers import capabilities
from ..script import ranks, render
from ..settings.trainers import RECIPES

# A run writes logs, metrics and checkpoints; less than this would be lost within the first epoch.
BYTES_NEEDED = 64 * 10**6
TRIES = 50
ROOMS = Path(__file__).parents[1]
Submitted = TypeVar("Submitted")


class Taken(SystemFault):
    """Another launch created the folder first; a new draft gets the next one."""

    id = "taken"


@dataclass(frozen=True)
class Draft:
    """What a launch will do, before it writes anything.

    `typed` is the command that asked for it. Among several that are submitted together `task` is
    its number, and `varied` are the arguments in which it differs from the others. A `private` one
    gets a folder that only its owner can read, with a token in it.
    """

    plan: Plan
    paths: JobPaths
    text: str
    typed: CommandLine = field(default_factory=CommandLine)
    task: int | None = None
    varied: Mapping[str, str] = field(default_factory=dict)
    private: bool = False


def draft(plan: Plan, typed: CommandLine | None = None) -> Draft:
    """Return the script and the folder for it; nothing is written."""
    paths = JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name))
    text = render.render(plan, paths, os.getcwd())
    return Draft(plan, paths, text, typed or CommandLine())


def with_retries(attempt: Callable[[], Submitted]) -> Submitted:
    """Return what `attempt` returns, which drafts and submits; repeat it if Taken."""
    for _ in range(TRIES):
        try:
            return attempt()
        except Taken:
            continue
    return attempt()


def check_folders(plan: Plan) -> None:
    """Raise Refused, or NotFound, when there is no place for the run or for its output.

    Slurm drops a job's output silently when the folder does not exist.
    """
    runs_dir = plan.spec.runs_dir
    for name, file in outputs(plan.spec).items():
        folder = os.path.dirname(file)
        if folder and "%" not in folder and not os.path.isdir(folder):
            raise NotFound(
                f"--{name} {file}: the folder {folder} does not exist",
                id="job-output-folder-missing",
            )
    nearest = next(path for path in (runs_dir, *runs_dir.parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        raise Refused(
            f"cannot write in {nearest}",
            remedy=change(runs_dir="DIR"),
            id="runs-folder-not-writable",
        )
    trust.check(runs_dir, os.environ)  # the ranks run what lies below it
    disk_space.check(nearest, BYTES_NEEDED, "the run", change(runs_dir="DIR"))


def outputs(spec: JobSpec) -> dict[str, str]:
    given = {"output": spec.output, "error": spec.error}
    return {name: file for name, file in given.items() if file}


@contextmanager
def claimed(*folders: Path) -> Iterator[None]:
    """Make the folders, and remove them all again when what follows fails.

    Raises SystemFault for what the disk refuses, and Taken.
    """
    made: list[Path] = []
    try:
        for folder in folders:
            make_folder(folder)
            made.append(folder)
        yield
    except BaseException as error:
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, FileExistsError):
            what = f"another launch has just taken {error.filename}; nothing was submitted"
            raise Taken(what, remedy=change()) from None
        if isinstance(error, OSError):
            raise SystemFault(
                f"cannot write the run's folder {folders[0]}",
                str(error),
                id="run-folder-not-written",
            ) from None
        raise


def write_alone(draft: Draft) -> None:
    """Check the places of a run that is started at a terminal, and write its folder."""
    check_folders(draft.plan)
    with claimed(draft.paths.root):
        write(draft)


def write_all(drafts: Sequence[Draft]) -> None:
    """Fill the runs' folders; runs with the same code share its files."""
    written: dict[bool, JobPaths] = {}
    for draft in drafts:
        write(draft, written.get(draft.plan.brings_recipe))
        written.setdefault(draft.plan.brings_recipe, draft.paths)


def write(draft: Draft, like: JobPaths | None = None) -> None:
    """Fill the run's folder; the code of a run that is `like` it is linked, not copied again.

    What is executed is for its owner alone, whatever the umask and the rights of our own files.
    """
    paths = draft.paths
    make_folder(paths.log.parent)
    paths.code.mkdir(0o700)
    copy_injob(paths, like)
    if draft.plan.brings_recipe:
        copied = like.code / RECIPES.name if like else None
        _copy_package(RECIPES, paths.code / RECIPES.name, copied)
    _temporary_key(paths)
    atomic.write_text(paths.script, draft.text, private=True)
    enter = render.enter(draft.plan, paths, os.getcwd())
    atomic.write_text(paths.enter, enter, private=True)
    if stamp := draft.plan.verified_stamp:
        atomic.write_text(paths.code / ranks.IMAGE_STAMP, f"{stamp}\n", private=True)
    if draft.private or draft.plan.spec.env:
        _write_private(draft)
    plan_record.write(paths, draft.plan)


def _temporary_key(paths: JobPaths) -> None:
    """Write the secret of which the ranks make the names of their temporary folders."""
    key = os.urandom(16).hex()  # `secrets` would bring OpenSSL, for which a launch need not wait
    atomic.write_text(paths.root / TEMPORARY_KEY, key, private=True)


def _write_private(draft: Draft) -> None:
    from . import private_folder  # few jobs have one, and a dry run never

    paths = draft.paths
    if draft.private:
        private_folder.make(paths)
    if draft.plan.spec.env:
        private_folder.write(paths, paths.env.name, runtimes.own_file(draft.plan))


def copy_injob(paths: JobPaths, like: JobPaths | None = None) -> None:
    """Copy what runs in a job, with what it shares with us in it: `contract`."""
    _copy_package(ROOMS / "injob", paths.injob, like.injob if like else None)
    if like is None:
        _copy_package(ROOMS / "contract", paths.injob / "contract")


def _copy_package(source: Path, target: Path, like: Path | None = None) -> None:
    """Copy a package; links to files that are `like` it cost a shared file system less."""
    copy, ignored = _link if like else _copy_file, shutil.ignore_patterns("__pycache__")
    shutil.copytree(like or source, target, ignore=ignored, copy_function=copy)
    for folder, _, _ in os.walk(target):
        os.chmod(folder, 0o700)


def _copy_file(source: str | Path, target: str | Path) -> None:
    Path(target).touch(0o600)
    shutil.copyfile(source, target)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        _copy_file(source, target)


def record(draft: Draft, id: str, array: str = "") -> Job:
    """Write down, in the run's folder, the job that it has become; `array` is as in Job."""
    plan, given = draft.plan, outputs(draft.plan.spec)
    files = {name: os.path.abspath(expand(f, id, plan.spec.name)) for name, f in given.items()}
    job = Job(
        id=id,
        name=plan.spec.name,
        scheduler=plan.launching.scheduler,
        log=files.get("output", os.path.abspath(draft.paths.log)),
        error=files.get("error", ""),
        submitted=time.time(),
        requeue_limit=plan.interruption.requeue_limit,
        host="" if capabilities(plan.launching.scheduler).queue else os.uname().nodename,
        array=array,
        varied=draft.varied,
        image=str(plan.spec.image.path),
        digest=plan.spec.image.digest,
        private=bool(plan.spec.env),
        typed=_typed(draft),
    )
    job.save(draft.paths)
    find_run.remember(plan.spec.runs_dir)
    return job


def _typed(draft: Draft) -> CommandLine:
    """Return what is to be typed for this run alone."""
    spec = draft.plan.spec
    typed = replace(draft.typed, settings=spec.settings, cwd=os.getcwd())
    if spec.trainer.typed:
        return replace(typed, trainer=spec.trainer.typed, args=spec.trainer.args)
    return typed


def expand(pattern: str, id: str, name: str) -> str:
    """Fill in the parts of sbatch's file name patterns that are known here (sbatch(1))."""
    number, _, task = id.partition("_")
    for mark, value in (("%j", id), ("%A", number), ("%a", task), ("%x", name), ("%%", "%")):
        pattern = pattern.replace(mark, value)
    return pattern
