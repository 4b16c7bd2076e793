"""Signatures of failures, and the explanations that they give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Callable

from ..contract.failure_kinds import FailureKind
from ..core.diagnosis import Certainty, Diagnosis, Severity
from ..core.job_record import JobState
from ..core.remedy import Remedy
from .facts import Facts, LogPattern

# Who can fix a failure; NOBODY where it is a node that is broken
YOU, AUTHOR, ADMINISTRATOR, NOBODY = "you", "author", "administrator", "nobody"
SURENESS = tuple(Certainty)  # the surest first


@dataclass(frozen=True)
class Explanation(Diagnosis):
    """Why a job ended as it did: a diagnosis with the rank that it is about, and who can fix it.

    A remedy, of which there is none where nothing failed, changes the command that launched the
    job, or is one of its own. `because` is why it is that sure.
    `evidence` are lines `FILE[:LINE]: [RANK@HOST | ]TEXT`, files as seen from the run's folder, and
    a table of where the ranks of a job that hung were; `traceback` is that of the rank that failed.
    `rank` and `host` are the first to fail, None and "" if it was none; `who` names it, or the
    ranks that failed alike.

    `fixed_by` is who can fix it; `steps` say what to do in words, where one command does not do it;
    `tell` is what to write to the administrators of the cluster.

    A signature leaves out `id`, `who` and `traceback`, and gives `rank` and `host` only where it
    is not the first rank to fail that it is about; one `of_job` is about no rank.
    """

    because: str = ""
    rank: int | None = None
    host: str = ""
    who: str = ""
    traceback: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    fixed_by: str = ""
    tell: str = ""
    of_job: bool = False

    @property
    def failed(self) -> bool:
        return self.severity is Severity.FAILURE

    @property
    def fix(self) -> Remedy | None:
        return self.remedies[0] if self.remedies else None


class Precedence(IntEnum):
    """The order of signatures: of those that fit, the sure one with the lowest number speaks.

    What the run's facts tell comes before other programs' messages, and these before what is
    general: an exception, a signal, an exit code. Each is where a group of signatures begins, whose
    numbers go on to that of the next group. Only messages share a number.
    """

    CONTAINER = 100
    SLURM = 200
    MEMORY = 300  # Slurm saw it, whatever the killed program's peers say
    # A package in the user's home is the cause, whatever the import says.
    HOME = 400
    # Where the job's script names a module, Lmod's words are only its evidence.
    HOST_SOFTWARE = 410
    PLAN = 500  # it tells more than the words of MPI and Gloo
    MESSAGE = 600  # that of a message whose entry has no number
    NOT_STARTED = 700
    PROCESS_GROUP = 800
    IMPORT = 900
    FILE = 1000
    TRAINER = 1100
    MESSAGE_BEFORE_CRASH = 1200
    SIGNAL = 1300
    # From here on a signature only repeats an error, names its family, or tells how a rank ended.
    CRASH = 1310
    RUN_DISK = 1400
    GENERAL_MESSAGE = 1410
    FALLBACK = 1420
    ENDED = 1500

    @classmethod
    def group(cls, number: int) -> Precedence:
        return max(begin for begin in cls if begin <= number)


@dataclass(frozen=True)
class Candidate:
    """What a signature says of a failure, and all that decides between it and other candidates.

    Of a message `declared` is how sure its entry is, and `expressions` how many it has, which were
    found from the character `at` of the text on. It is `in_log` where the log has an exception of
    the first rank, and the text is more than that.
    """

    explanation: Explanation
    precedence: int
    in_log: bool = False
    declared: Certainty = Certainty.CERTAIN
    expressions: int = 0
    at: int = 0

    @property
    def key(self) -> tuple[int, ...]:
        """The lowest explains the failure.

        What only repeats an error comes last, in the order of precedence alone. Of the others a
        sure one comes before an unsure one, then the lower precedence. Where messages share that,
        the one comes first that is surest of this failure, then that of the rank's own exception,
        that of the surest entry, that with most expressions, and the first in the text.
        """
        certainty = self.explanation.certainty
        repeats = self.precedence >= Precedence.CRASH
        unsure = certainty is Certainty.UNSURE and not repeats
        sure, declared = SURENESS.index(certainty), SURENESS.index(self.declared)
        of_message = (sure, self.in_log, declared, -self.expressions, self.at)
        return (repeats, unsure, self.precedence, *of_message)


@dataclass(frozen=True)
class Signature:
    """One kind of failure: its name, what it looks for in the log, and its judgement.

    `judge` is pure and answers None for all that is not this kind. It is asked only about jobs in
    `state`, and about a first failure of this `kind`, where they are given. An `early` one can tell
    while the job still runs, before any rank has failed.
    """

    name: str
    judge: Callable[[Facts], Explanation | None]
    precedence: int
    patterns: tuple[LogPattern, ...] = ()
    early: bool = False
    state: JobState | None = None
    kind: FailureKind | None = None

    def ask(self, facts: Facts) -> Candidate | None:
        if self.state not in (None, facts.state) or self.kind not in (None, facts.kind):
            return None
        said = self.judge(facts)
        return Candidate(replace(said, id=said.id or self.name), self.precedence) if said else None
