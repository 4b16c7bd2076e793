"""The facts of a job: its records, the lines of its log, its plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..contract import failure_kinds as kinds
from ..contract.failure_kinds import FailureKind
from ..core.job_record import Job, JobPaths, JobState
from ..core.model import Resources, RuntimeName
from ..core.plan_record import PlanRecord


@dataclass(frozen=True)
class LogPattern:
    """What to look for in the log: `words` are in the line, and `pattern` (a regex) too, if given.

    `words` are found at the speed of memory, so that a log of gigabytes can be read; what is in
    `pattern` costs more, and only on the lines that have the words.
    """

    words: str
    pattern: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the log. `rank` and `host` are those of its label; None and "" without one."""

    number: int
    text: str
    rank: int | None = None
    host: str = ""
    file: str = "logs/job.log"

    def __str__(self) -> str:
        """Return it as evidence: file, number, who, text."""
        who = f"{self.rank}@{self.host} | " if self.rank is not None else ""
        return f"{self.file}:{self.number}: {who}{self.text.strip()}"


@dataclass(frozen=True)
class Failure:
    """The record of a rank that failed; a node that could not stage has no rank.

    `kind` is None in a record of before there were kinds, or of a kind that only a newer runner
    knows; `fields` are those of its kind. `time` is in seconds of the epoch, by the rank's own
    clock; `size` is the number of ranks; `file` is the record's, as seen from the run's folder.
    `error` is the first line of the rank's own error, `guessed` if it is only the last line that
    looks like one, before it ended silently; `traceback` are the lines of an exception that ended
    it, `signal` is the one that did, 0 for none.
    """

    rank: int | None
    host: str
    exit_code: int
    message: str
    time: float
    file: str
    kind: FailureKind | None = None
    size: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    traceback: tuple[str, ...] = ()
    guessed: bool = False
    signal: int = 0

    @property
    def follower(self) -> bool:
        """Whether it failed because another had."""
        return kinds.follows(self.kind, self.fields)

    @property
    def silent(self) -> bool:
        """Whether it ended by an exit code alone."""
        return self.kind == FailureKind.EXIT and not self.error

    def alike(self, failure: Failure) -> bool:
        """Whether another rank failed in the very same way."""
        same = self.kind == failure.kind and self.exit_code == failure.exit_code
        return same and self.message == failure.message

    def __str__(self) -> str:
        """Return it as evidence."""
        where = f"{self.rank}@{self.host}" if self.rank is not None else self.host
        return f"{self.file}: {where} | {self.message}"


@dataclass(frozen=True)
class Lost:
    """A rank of which another says that it ended, as srun does: `how` in its words."""

    rank: int
    host: str
    how: str
    line: Line


@dataclass(frozen=True)
class LogFacts:
    """What one pass over the log found; bounded, whatever its size.

    `hits` has, for each pattern, the first lines of each rank in the order of the log. `errors` are
    the first lines of each rank that look like errors. `last` are the last lines of the rank that
    failed first, as far as its record tells, else of the log. `of_nobody` are the first and last
    lines without a label: Slurm's, the runtime's. `failed` is the line number at which each rank's
    failure was told; `lost` are ranks that ended before srun began to end the others.
    `size` is in bytes.
    """

    hits: Mapping[LogPattern, tuple[Line, ...]] = field(default_factory=dict)
    errors: tuple[Line, ...] = ()
    last: tuple[Line, ...] = ()
    of_nobody: tuple[Line, ...] = ()
    failed: Mapping[int, int] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    lines: int = 0
    size: int = 0


@dataclass(frozen=True)
class FirstFailure:
    """The rank that failed first. `record` is its own, None when it could not leave one.

    `worker` is the number of a rank below it, where it is the agent of a launcher such as torchrun.
    `how` says how it ended; `doubt` is empty, or why it may have been another. `alike` counts the
    ranks that failed in the same way, of `size`: where there are several, none was the first.
    """

    rank: int | None
    host: str
    how: str
    evidence: tuple[str, ...]
    record: Failure | None = None
    doubt: str = ""
    alike: int = 1
    size: int | None = None
    worker: int | None = None

    @property
    def name(self) -> str:
        """`rank R@HOST`, `all 4 ranks` that failed alike, or `data on HOST` of a node alone."""
        if self.alike > 1:
            everybody = "both ranks" if self.size == 2 else f"all {self.size} ranks"
            return everybody if self.alike == self.size else f"{self.alike} ranks"
        if self.rank is not None:
            return f"rank {self.rank if self.worker is None else self.worker}@{self.host}"
        staged = self.record.fields.get("what", "node") if self.record else "node"
        return f"{staged} on {self.host}"

    def __str__(self) -> str:
        """Return who it was and how it ended."""
        return f"{self.name}: {self.how}"


@dataclass(frozen=True)
class Facts:
    """All that signatures judge by: scheduler, records, log and plan of one job.

    `failures` have those to blame first; `plan` is what was decided for it; `saved` is the step of
    the newest checkpoint, `free` the bytes that are free beside it. `image_newer` says that the
    image was written after the job was submitted. `scratch` is the user's folder for large files,
    where the site names one, and `user` the name. `of_text` says that a log is all that is known.
    """

    paths: JobPaths
    job: Job
    state: JobState
    reason: str = ""
    exit_code: int | None = None
    failures: tuple[Failure, ...] = ()
    first: FirstFailure | None = None
    log: LogFacts = field(default_factory=LogFacts)
    plan: PlanRecord = field(default_factory=PlanRecord)
    saved: int | None = None
    free: int | None = None
    image_newer: bool = False
    scratch: str = ""
    user: str = ""
    of_text: bool = False

    @property
    def record(self) -> Failure | None:
        """What the first rank to fail left; None where none did, or it is not known."""
        return self.first.record if self.first else None

    @property
    def kind(self) -> FailureKind | None:
        """The kind of the first rank's failure; None if it left no record."""
        return self.record.kind if self.record else None

    @property
    def error(self) -> str:
        """The first rank's own error, in the words of the program; "" if it left none."""
        return self.record.error if self.record else ""

    @property
    def how(self) -> str:
        """How the first rank ended; "" where none failed."""
        return self.first.how if self.first else ""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields that the first rank's record has of its kind; none without a record."""
        return self.record.fields if self.record else {}

    @property
    def image(self) -> str:
        """The image as it was named for the launch, or its path."""
        return self.plan.image or "IMAGE"

    @property
    def image_file(self) -> str:
        """The image for a program that does not know the launch's ways to find it by name."""
        return self.job.image or self.image

    @property
    def resources(self) -> Resources:
        """What the scheduler was asked for."""
        return self.plan.resources or Resources()

    def argument(self, name: str) -> str:
        """Return the value of the trainer's argument `name`, such as --lr; "" when not given."""
        words = self.plan.command
        for word, after in zip(words, (*words[1:], "")):
            given, equals, value = word.partition("=")
            if given == name:
                return value if equals else after
        return ""

    @property
    def is_recipe(self) -> bool:
        """Whether the trainer is a packaged one."""
        return " ".join(self.plan.command[:2]).startswith("-m recipes.")

    @property
    def has_image(self) -> bool:
        """Whether the ranks ran in an image; else in an environment on the nodes."""
        return self.plan.launching is None or self.plan.launching.runtime is not RuntimeName.NONE

    @property
    def environment(self) -> str:
        """The word for what the ranks' packages are in."""
        return "image" if self.has_image else "environment"

    def lines(self, pattern: LogPattern) -> tuple[Line, ...]:
        """Return the lines with a pattern, of all ranks and of none."""
        return self.log.hits.get(pattern, ())

    def line(self, pattern: LogPattern) -> Line | None:
        """Return the first line with a pattern of the first rank to fail, or of no rank.

        Other ranks' lines tell of what followed. Without a rank to blame any line will do.
        """
        ranks = {None, self.first.rank} if self.first else None
        lines = self.lines(pattern)
        return next((line for line in lines if ranks is None or line.rank in ranks), None)

    def match(self, pattern: LogPattern) -> tuple[Line, re.Match[str]] | None:
        """Return that line, and what the pattern finds in it."""
        line = self.line(pattern)
        match = re.search(pattern.pattern, line.text) if line else None
        return (line, match) if line and match else None
