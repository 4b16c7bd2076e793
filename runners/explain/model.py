"""The values of an explanation: what is known of a job, and what a signature makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Callable

from ..core.job_record import Job, JobPaths, JobState


class Certainty(Enum):
    """How sure an explanation is; the reason stands beside it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Mark:
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
    """What a rank left in failures/ when it failed; a node that could not stage has no rank.

    A `follower` failed because another had. `time` is in seconds of the epoch, by its own clock;
    `file` is the record's, as seen from the run's folder. A `guessed` message is the last line of
    the rank that looks like an error, where it ended without a word.
    """

    rank: int | None
    host: str
    exit_code: int
    message: str
    time: float
    follower: bool
    file: str
    guessed: bool = False

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

    `hits` has, for each mark, the first lines of each rank in the order of the log. `errors` are
    the first lines of each rank that look like errors. `last` are the last lines of the rank that
    failed first, as far as its record tells, else of the log. `failed` is the line number at which
    each rank's failure was told; `lost` are ranks that ended before srun began to end the others.
    `size` is in bytes.
    """

    hits: Mapping[Mark, tuple[Line, ...]] = field(default_factory=dict)
    errors: tuple[Line, ...] = ()
    last: tuple[Line, ...] = ()
    failed: Mapping[int, int] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    lines: int = 0
    size: int = 0


@dataclass(frozen=True)
class Blame:
    """The rank that failed first. `record` is its own, None when it could not leave one.

    `how` says how it ended; `sure` is empty, or why it may have been another.
    """

    rank: int | None
    host: str
    how: str
    evidence: tuple[str, ...]
    record: Failure | None = None
    doubt: str = ""

    @property
    def name(self) -> str:
        """`rank R@HOST`, or for a node without ranks `data on HOST`: what was to be staged."""
        if self.rank is not None:
            return f"rank {self.rank}@{self.host}"
        what = self.record.file.split("-")[1] if self.record else "node"
        return f"{what} on {self.host}"

    def __str__(self) -> str:
        """Return who it was and how it ended."""
        return f"{self.name}: {self.how}"


@dataclass(frozen=True)
class Facts:
    """All that signatures judge by: scheduler, records, log and plan of one job.

    `failures` have those to blame first; `plan` is what was chosen for each question of the plan;
    `saved` is the step of the newest checkpoint, `free` the bytes that are free beside it.
    `image_newer` says that the image was written after the job was submitted.
    """

    paths: JobPaths
    job: Job
    state: JobState
    reason: str = ""
    exit_code: int | None = None
    restart: int = 0
    failures: tuple[Failure, ...] = ()
    first: Blame | None = None
    log: LogFacts = field(default_factory=LogFacts)
    plan: Mapping[str, str] = field(default_factory=dict)
    saved: int | None = None
    free: int | None = None
    image_newer: bool = False

    @property
    def record(self) -> Failure | None:
        """What the first rank to fail left; None where none did, or it is not known."""
        return self.first.record if self.first else None

    @property
    def message(self) -> str:
        """What the first rank to fail left as its error; "" if it left none."""
        return self.record.message if self.record else ""

    @property
    def image(self) -> str:
        """The image as it was named on the command line, else as the job's record has it."""
        words = list(self.job.words)
        given = [word[len("--image=") :] for word in words if word.startswith("--image=")]
        given += [after for word, after in zip(words, words[1:]) if word == "--image"]
        return given[-1] if given else self.job.image or "IMAGE"

    def lines(self, mark: Mark) -> tuple[Line, ...]:
        """Return the lines with a mark, of all ranks and of none."""
        return self.log.hits.get(mark, ())

    def line(self, mark: Mark) -> Line | None:
        """Return the first line with a mark of the first rank to fail, or of no rank.

        Other ranks' lines tell of what followed. Without a rank to blame any line will do.
        """
        own = {None, self.first.rank} if self.first else None
        return next((one for one in self.lines(mark) if own is None or one.rank in own), None)


@dataclass(frozen=True)
class Finding:
    """What a signature makes of the facts.

    `fix` is a command, or several that are joined by ` && `. One that begins with a dash, or with
    `leave out `, stands for the command that launched the job, with these options (as in
    `core.remedy`); after `-- ` come arguments of its trainer. `rank` and `host` are only given
    where it is not the first rank to fail that the finding is about.
    """

    cause: str
    evidence: tuple[object, ...]
    fix: str
    certainty: Certainty
    because: str
    rank: int | None = None
    host: str = ""


@dataclass(frozen=True)
class Signature:
    """One kind of failure: its name, what it wants to see of the log, and its judgement.

    `judge` is pure and answers None for all that is not this kind. An `early` one can tell while
    the job still runs, before any rank has failed.
    """

    name: str
    judge: Callable[[Facts], Finding | None]
    marks: tuple[Mark, ...] = ()
    early: bool = False


# The names of explanations of jobs that have not failed.
PENDING, RUNNING, COMPLETED = "pending", "running", "completed"


@dataclass(frozen=True)
class Explanation:
    """Why a job ended as it did: cause, evidence, a command that mends it, and how sure that is.

    `fix` is as in Finding. `evidence` are lines `FILE[:LINE]: [RANK@HOST | ]TEXT`, files as seen
    from the run's folder. `rank` and `host` are the first to fail, None and "" if it was none.
    """

    name: str
    cause: str
    evidence: tuple[str, ...]
    fix: str
    certainty: Certainty
    because: str
    rank: int | None = None
    host: str = ""

    @property
    def failed(self) -> bool:
        """Whether there is a failure to explain."""
        return self.name not in (PENDING, RUNNING, COMPLETED)
