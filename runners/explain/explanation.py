"""What a signature makes of the facts, and what it becomes: an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Callable, NamedTuple

from ..core.remedy import Remedy
from .facts import Facts, LogPattern


class Certainty(Enum):
    """How sure an explanation is; the reason stands beside it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNSURE = "unsure"


class Alternative(NamedTuple):
    """Another remedy, and what it does that the first does not."""

    does: str
    fix: Remedy


@dataclass(frozen=True)
class Finding:
    """What a signature makes of the facts.

    `fix` changes the command that launched the job, or is one of its own; `others` are further
    ways. `rank` and `host` are only given where it is not the first rank to fail that the finding
    is about; one `of_job` is about no rank.
    """

    cause: str
    evidence: tuple[object, ...]
    fix: Remedy
    certainty: Certainty
    because: str
    rank: int | None = None
    host: str = ""
    others: tuple[Alternative, ...] = ()
    of_job: bool = False


@dataclass(frozen=True)
class Signature:
    """One kind of failure: its name, what it looks for in the log, and its judgement.

    `judge` is pure and answers None for all that is not this kind. An `early` one can tell while
    the job still runs, before any rank has failed.
    """

    name: str
    judge: Callable[[Facts], Finding | None]
    patterns: tuple[LogPattern, ...] = ()
    early: bool = False


# The names of explanations of jobs that have not failed.
PENDING, RUNNING, COMPLETED = "pending", "running", "completed"


@dataclass(frozen=True)
class Explanation:
    """Why a job ended as it did: cause, evidence, a command that mends it, and how sure that is.

    `fix` and `others` are as in Finding; there is no fix where nothing failed. `evidence` are lines
    `FILE[:LINE]: [RANK@HOST | ]TEXT`, files as seen from the run's folder; `traceback` is that of
    the rank that failed. `rank` and `host` are the first to fail, None and "" if it was none; `who`
    names it, or the ranks that failed alike.
    """

    name: str
    cause: str
    evidence: tuple[str, ...]
    fix: Remedy | None
    certainty: Certainty
    because: str
    rank: int | None = None
    host: str = ""
    who: str = ""
    traceback: tuple[str, ...] = ()
    others: tuple[Alternative, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is a failure to explain."""
        return self.name not in (PENDING, RUNNING, COMPLETED)
