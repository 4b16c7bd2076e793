"""A study on disk: what was asked, and how each of its runs stands.

The runs' folders are the state: `runs/KEY` is the first attempt at a point, `runs/KEY.2` the next.
Nothing else is remembered, so a study that was interrupted in any way continues from what is there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ..core import disk_space, files, job_record
from ..core.command_line import without_secret
from ..core.errors import NotFound, SystemFault, UsageError
from ..core.job_record import Folder, JobPaths, PathBelow
from ..explain import read_facts
from . import measure
from . import references as published
from .measure import Measured, NotMeasured
from .study_request import Point, StudyRequest, as_json, from_json

SCHEMA = 2  # of study.json
# What may grow from one call to the next, and what only says how the runs are read.
MAY_CHANGE = ("sizes", "variants", "repeats", "drop")


class StudyPaths(Folder):
    """Every path of a study, below its folder `root`."""

    asked = PathBelow("study.json", "The question, and the command that asked it.")
    runs = PathBelow("runs", "The runs' folders, as those of any launch.")
    csv = PathBelow("results.csv", "A line for each run.")
    json = PathBelow("results.json", "All that is known.")
    png = PathBelow("scaling.png", "The drawing of it.")
    lock = PathBelow(".lock", "Held by the `runner scale` that is at work on it.")


@dataclass(frozen=True)
class StudyRecord:
    """What study.json holds: the question, the command in words, where it was typed, references."""

    question: StudyRequest
    words: tuple[str, ...]
    cwd: str
    references: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return shlex.join(["runner", *map(without_secret, self.words)])


class PointState(Enum):
    """How a point stands."""

    TO_DO = "to do"
    OPEN = "submitted"
    MEASURED = "measured"
    FAILED = "failed"


ENDED = (PointState.MEASURED, PointState.FAILED)


@dataclass(frozen=True)
class PointStatus:
    """A point, its last attempt, and its result: a measurement, or why there is none.

    `kind` is that of NotMeasured where the run itself ended well.
    """

    point: Point
    state: PointState
    paths: JobPaths | None = None
    measured: Measured | None = None
    reason: str = ""
    kind: str = ""


def load(paths: StudyPaths) -> StudyRecord:
    """Read a study; raise NotFound where there is none, SystemFault for an unreadable one."""
    value = files.read_json(paths.asked)
    if value is None:
        raise NotFound(
            f"{paths.root} is no scaling study",
            f"{paths.asked} does not exist",
            id="study-not-found",
        )
    try:
        if (schema := value["schema"]) != SCHEMA:
            evidence = f"its schema is {schema}, this runner's {SCHEMA}"
            raise SystemFault(
                f"cannot read {paths.asked}",
                evidence,
                "a new study: --study DIR",
                id="study-of-other-version",
            )
        question = from_json(value["question"])
        words, references = tuple(value["words"]), tuple(value["references"])
        return StudyRecord(question, words, value["cwd"], references)
    except (KeyError, TypeError, UsageError) as error:
        raise SystemFault(
            f"cannot read {paths.asked}", f"{error!r}", id="study-unreadable"
        ) from None


@dataclass(frozen=True)
class StudyChanges:
    """What may change of a study afterwards; None and () leave it as it is."""

    drop: int | None = None
    references: tuple[str, ...] = ()


def changed(record: StudyRecord, changes: StudyChanges) -> StudyRecord:
    """Return a study with changes. Raises UsageError for a reference that there is not."""
    if changes.references:
        published.references(changes.references)
        record = replace(record, references=changes.references)
    if changes.drop is not None:
        record = replace(record, question=replace(record.question, drop=changes.drop))
    return record


def new(
    question: StudyRequest, words: tuple[str, ...], references: tuple[str, ...], folder: str | None
) -> tuple[StudyPaths, StudyRecord]:
    """Return a study that starts here, `words` being its command; nothing is written.

    Raises UsageError for a reference that there is not, and for one trace file of all runs.
    """
    published.references(references)
    flags = dict(question.flags)
    trace = str(flags.get("timeline-filename", ""))
    if "/" in trace:
        raise UsageError(
            f"--timeline-filename {trace} would be one file for all runs",
            remedy="--timeline-filename timeline.json, a name in each run's folder",
            id="study-timeline-shared",
        )
    name = flags.get("job-name") or Path(question.trainer).stem
    root = Path(folder or os.path.join("studies", name)).absolute()
    return StudyPaths(root), StudyRecord(question, words, os.getcwd(), references)


def reopen(folder: str, changes: StudyChanges) -> tuple[StudyPaths, StudyRecord]:
    """Return a study as its own command asked for it, and change to that command's folder.

    Its image, its trainer and its runner.toml may be named relative to that folder.
    """
    paths = StudyPaths(Path(folder).absolute())
    record = changed(load(paths), changes)
    try:
        os.chdir(record.cwd)
    except OSError as error:
        raise SystemFault(
            f"cannot change to {record.cwd}, the working directory of the command",
            str(error),
            id="study-folder-gone",
        ) from None
    return paths, record


def begin(paths: StudyPaths, record: StudyRecord) -> StudyRecord:
    """Write down a new study, or return the one that is there, grown to what is asked now.

    Raises UsageError when the one that is there asks something else.
    """
    if paths.asked.exists():
        old = load(paths)
        references = record.references or old.references
        record = replace(record, question=_grown(old, record, paths.root), references=references)
    with disk_space.writing(paths.asked):
        files.make_folder(paths.runs, exist_ok=True)
        save(paths, record)
    return record


def save(paths: StudyPaths, record: StudyRecord) -> None:
    value = {"question": as_json(record.question), "words": record.words, "cwd": record.cwd}
    whole = {"schema": SCHEMA, **value, "references": record.references}
    files.write_json(paths.asked, whole, private=True)  # values of --env are among the words


def _grown(old: StudyRecord, new: StudyRecord, folder: Path) -> StudyRequest:
    """Return the new question with the old one's points in it."""
    before, now = (json.loads(json.dumps(as_json(record.question))) for record in (old, new))
    changed = [name for name in now if before[name] != now[name] and name not in MAY_CHANGE]
    if changed:
        evidence = "\n".join(f"{n}: {_told(before[n])} there, {_told(now[n])} now" for n in changed)
        raise UsageError(
            f"{folder} holds another study",
            evidence,
            f"--study {folder}-2",
            id="study-of-other-command",
        )
    old_question, new_question = old.question, new.question
    return replace(
        new_question,
        sizes=tuple(sorted({*old_question.sizes, *new_question.sizes})),
        variants=tuple(dict.fromkeys([*old_question.variants, *new_question.variants])),
        repeats=max(old_question.repeats, new_question.repeats),
    )


def _told(value: Any) -> str:
    return shlex.join(value) if isinstance(value, list) else json.dumps(value)


def statuses(
    paths: StudyPaths, question: StudyRequest, known: Mapping[str, PointStatus]
) -> list[PointStatus]:
    """Return how each point stands; those that have ended and are `known` by key are not read."""
    folders = _attempts(paths.runs)
    listed = []
    for point in question.points():
        before = known.get(point.key)
        attempts = folders.get(point.key, [])
        if before and before.state in ENDED and attempts and before.paths == attempts[-1]:
            listed.append(before)
        else:
            listed.append(_status(point, attempts, question))
    return listed


def _attempts(runs: Path) -> dict[str, list[JobPaths]]:
    numbered: dict[str, list[tuple[int, Path]]] = {}
    for folder in runs.iterdir() if runs.is_dir() else ():
        match = re.fullmatch(r"(.+-r\d+)(?:\.(\d+))?", folder.name)
        if match:
            numbered.setdefault(match[1], []).append((int(match[2] or 1), folder))
    return {
        key: [JobPaths(path) for _, path in sorted(attempts)] for key, attempts in numbered.items()
    }


def next_attempts(paths: StudyPaths, points: Sequence[Point]) -> list[JobPaths]:
    """Return, for each point, the folder for one more attempt at it."""
    before = _attempts(paths.runs)
    counts = [len(before.get(point.key, [])) for point in points]
    names = [f"{p.key}.{n + 1}" if n else p.key for p, n in zip(points, counts)]
    return [JobPaths(paths.runs / name) for name in names]


def _status(point: Point, attempts: Sequence[JobPaths], question: StudyRequest) -> PointStatus:
    """Return the measurement of the first attempt that has one, else how the last one stands."""
    tried = [_attempt(point, folder, question) for folder in attempts]
    measured = [status for status in tried if status.state is PointState.MEASURED]
    return (measured or tried[-1:] or [PointStatus(point, PointState.TO_DO)])[0]


def _attempt(point: Point, paths: JobPaths, question: StudyRequest) -> PointStatus:
    code = job_record.exit_code(paths)
    if code == 0:
        of = (point.size.nodes, point.variant.label, point.repeat)
        try:
            measurement = measure.read(paths, *of, question.drop)
        except NotMeasured as why:
            return PointStatus(point, PointState.FAILED, paths, reason=str(why), kind=why.kind)
        return PointStatus(point, PointState.MEASURED, paths, measurement)
    ended = f"exit code {code}"
    if code is None:
        if not paths.job.exists():  # it was never submitted
            return PointStatus(point, PointState.TO_DO, paths)
        state = job_record.load(paths).state
        if not state:
            return PointStatus(point, PointState.OPEN, paths)
        ended = job_record.JobState[state].value
    reason = str(read_facts.first_recorded(paths) or ended)
    return PointStatus(point, PointState.FAILED, paths, reason=reason)
