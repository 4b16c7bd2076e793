"""Makes the explanations that signatures return, and reads what is known of the first rank."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence

from ..core.diagnosis import Certainty, Severity
from ..core.remedy import Remedy
from .explanation import Explanation
from .facts import Facts, Line
from .lost_ranks import exit_code as exit_code_of

# Words of an error or an address, and what `runner data fetch` calls that dataset
FETCHED_AS = {r"fashion-?mnist": "fashion-mnist", "mnist": "mnist", r"cifar-?10": "cifar10-python"}
TRACEBACK_LINE = re.compile(r'^(?:\[rank\d+\]: )?\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
# Files that the user did not write: those of packages, of Python, and of the shim,
# programs such as bin/torchrun, and what TensorFlow makes of a @tf.function
NOT_THE_USERS = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|/code/(?:injob|recipes)/|^<|/bin/[^/]+$"
    r"|/__autograph_generated_file|\.pyx$"
)
# What Python prints between an error and the one that came of it
BETWEEN_ERRORS = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
# TensorFlow's, of an error within @tf.function; torchrun's summary; accelerate's of its program;
# what any program says of another that it ran, unless a signal ended that or it is a compiler:
# then nothing else tells of it
ON_TOP = re.compile(
    r"in user code:$|\bChildFailedError\b|\bCalledProcessError\b"
    r"|(?:Error|Exception|Exit)\b(?!.*(?:g\+\+|\b(?:gcc|cc|nvcc|hipcc|ninja|cmake)\b))"
    r".*?\b(?:exited|fail(?:ed|ure)|finished|returned|ended|terminated)"
    r"(?: with| an?| unexpectedly| and)* ?[(:,]? ?(?:non-?zero\b|(?:status|code)\b:? \d"
    r"|(?:exit|return)[ -]?(?:code|status)\b)"
    r"(?!.*(?:-\d|SIG[A-Z]|signal|[ =:]1[23]\d\b))"
)
NAME_OF_ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b")
RANK_REPORTS = "the rank's own last error reports it"
LAST_LINE_ONLY = "this is its last line that looks like an error"


def finding(
    cause: str, evidence: Iterable[object], fix: Remedy, certainty: Certainty, because: str
) -> Explanation:
    """Return what a signature makes of the facts."""
    lines = "\n".join(map(str, evidence))
    return Explanation("", Severity.FAILURE, cause, lines, (fix,), certainty, because)


def certain(
    facts: Facts, cause: str, fix: Remedy, *evidence: object, because: str = "", note: str = ""
) -> Explanation:
    """Return what is known for sure; the record of the first rank to fail is evidence too.

    Without `because` it is known by the rank's own error, to which `note` adds something.
    """
    sure = Certainty.CERTAIN
    if not because:
        sure, because = as_sure_as_told(facts, sure, RANK_REPORTS + note)
    return finding(cause, (*record_of(facts), *evidence), fix, sure, because)


def as_sure_as_told(facts: Facts, sure: Certainty, because: str) -> tuple[Certainty, str]:
    """Return how sure it is, and why: less where the rank did not say itself why it ended.

    Python ends with 1 after an error; a program that handled the error and then ends with another
    code may have had others.
    """
    record = facts.record
    if record is None or not record.guessed or sure != Certainty.CERTAIN:
        return sure, because
    sure = Certainty.LIKELY if record.exit_code == 1 else Certainty.UNSURE
    if facts.of_text:
        return sure, "the text has this error; whether a rank ended with it is not known"
    return sure, f"the rank exited without an error message, and {LAST_LINE_ONLY}"


def likely(facts: Facts, cause: str, fix: Remedy, *evidence: object, because: str) -> Explanation:
    return finding(cause, (*record_of(facts), *evidence), fix, Certainty.LIKELY, because)


def record_of(facts: Facts) -> tuple[str, ...]:
    """Return the record of the first rank to fail, as evidence."""
    return facts.first.evidence if facts.first else ()


def dataset_in(text: str) -> str:
    """Return the name for `runner data fetch` of the dataset that a text names, or ""."""
    names = (name for words, name in FETCHED_AS.items() if re.search(rf"(?i)\b{words}\b", text))
    return next(names, "")


def signal_of(facts: Facts) -> int:
    """Return the signal that ended the first rank to fail, 0 for none."""
    if facts.record:
        return facts.record.signal
    code = exit_code_of(facts.first.how) if facts.first else None
    return max(0, (code or 0) - 128)


def name_of_signal(number: int) -> str:
    """Return the name of a signal; "" for a number that is none's."""
    return signal.Signals(number).name if number in {*signal.Signals} else ""


def who(facts: Facts) -> str:
    """Return the first rank to fail as `rank R@HOST`, of several `each of the 4 ranks`."""
    first = facts.first
    if first is None or first.rank is None:
        return "the job"
    return f"each of the {first.alike} ranks" if first.alike > 1 else first.name


def host(facts: Facts) -> str:
    """Return the node of the first rank to fail, `NODE` when none is known."""
    return (facts.first.host if facts.first else "") or "NODE"


def user_line(facts: Facts) -> tuple[Line, str, int] | None:
    """Return the user's own line that was being run at the end: its evidence, file and number."""
    worker = facts.first.worker if facts.first else None
    label = "" if worker is None else f"[rank{worker}]: "
    theirs = [line for line in facts.log.last if line.text.startswith(label)]
    for line in reversed(_below_others(theirs or facts.log.last, facts.error)):
        match = TRACEBACK_LINE.match(line.text)
        if match and not NOT_THE_USERS.search(match["file"]):
            return line, match["file"], int(match["line"])
    return None


def _below_others(lines: Sequence[Line], error: str) -> Sequence[Line]:
    """Return lines up to where a program only tells that the one with this error has failed."""
    at = next((at for at, line in enumerate(lines) if error and error in line.text), len(lines))
    end = next((end for end in range(at + 1, len(lines)) if ON_TOP.search(lines[end].text)), at)
    return lines[: at + 1] if end > at else lines


def own_code(facts: Facts) -> tuple[Line, ...]:
    """Return the user's own line that was being run, and the code below it.

    Where the record has the traceback, that is shown as a whole.
    """
    at = None if facts.record and facts.record.traceback else user_line(facts)
    last = facts.log.last
    return last[last.index(at[0]) :][:2] if at else ()


def before(facts: Facts) -> list[Line]:
    """Return the errors from which the first rank's last one came: Python shows them before it."""
    last = facts.log.last
    ends = [at for at, line in enumerate(last) if line.text.startswith(BETWEEN_ERRORS)]
    return [
        line for at in ends for line in last[max(0, at - 3) : at] if NAME_OF_ERROR.match(line.text)
    ]
