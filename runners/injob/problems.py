"""Says as a value why a rank failed: from its exit code, its last lines, or its exception."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contract import failure_kinds as kinds
from ..contract import log_text
from ..contract.failure_kinds import FailureKind
from ..contract.log_text import plain

LONGEST = 300  # characters of an error in a sentence; the record has KEPT, and the log all of it
KEPT = 4000
TRACEBACK_LINES = 400
# The last line of a Python traceback, "pkg.SomeError: text", or a line that a program marks so; not
# the metric "val_error: 0.5".
ERROR_LINE = re.compile(
    rf"^(?:{log_text.OF_RANK})?"
    rf"(?P<error>(?!(?-i:\S+error): -?[\d.e-]+$)(?:{log_text.OF_A_TYPE}|runner: |error: ).*)",
    re.IGNORECASE,
)
MARKED = ("error: ", "runner: ")  # lines that a program marks as the reason of its end


@dataclass(frozen=True)
class Problem:
    """Why a rank failed: its kind, a sentence for people, and the fields of its kind."""

    kind: FailureKind
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_data(cls, value: Mapping[str, Any]) -> Problem:
        """Return the problem that another rank sent as JSON."""
        return cls(FailureKind(value["kind"]), value["text"], value["fields"])


class RendezvousError(Exception):
    """The ranks could not meet; `problem` says which of them is missing, and where."""

    def __init__(self, kind: FailureKind, text: str, **fields: Any) -> None:
        super().__init__(text)
        self.problem = Problem(kind, text, fields)


def problem_of(error: RendezvousError | OSError) -> Problem:
    """Return the problem of an error at the rendezvous, or of the system."""
    if isinstance(error, RendezvousError):
        return error.problem
    return Problem(FailureKind.RENDEZVOUS, str(error))


def of_process(code: int, tail: Sequence[str], signals_sent: Collection[int] = ()) -> Problem:
    """Return how a process ended, from its exit code and the last lines that it wrote."""
    if code > 128:
        return _of_signal(code - 128, signals_sent)
    lines = [plain(line) for line in tail] if code else []  # half a second for each MB of a line
    errors = filter(None, map(ERROR_LINE.match, reversed(lines)))
    error = next((match["error"] for match in errors), "")
    return of_exit(code, error, guessed=bool(error) and not error.startswith(MARKED))


def _of_signal(number: int, signals_sent: Collection[int]) -> Problem:
    names = {member.value: member.name for member in signal.Signals}
    text = f"killed by signal {number} ({names.get(number, 'unknown')})"
    if number == signal.SIGUSR1 and number in signals_sent:
        text += ", the request to save and stop, which the trainer does not handle"
    fields = {"signal": number, "asked": sorted(int(sent) for sent in signals_sent)}
    return Problem(FailureKind.SIGNAL, text, fields)


def of_exit(code: int, error: str = "", *, guessed: bool = False) -> Problem:
    """Return the problem of an exit code, with the reason if there is one."""
    error = _first_line(error)
    if kinds.of_lost_peer(error):
        return Problem(
            FailureKind.PEER_LOST, _sentence(code, error), {"error": error, "traceback": []}
        )
    return Problem(FailureKind.EXIT, _sentence(code, error), {"error": error, "guessed": guessed})


def of_exception(code: int, error: Exception, lines: Sequence[str]) -> Problem:
    """Return the problem of an exception; `lines` are its traceback."""
    words = _first_line(f"{type(error).__name__}: {str(error).strip()}".rstrip(": "))
    # TensorFlow says on a later line who was lost; Horovod's type alone tells it.
    lost = kinds.of_lost_peer(f"{type(error).__name__}: {error}")
    kind = FailureKind.PEER_LOST if lost else FailureKind.EXCEPTION
    fields = {"error": words, "traceback": list(lines[-TRACEBACK_LINES:])}
    return Problem(kind, _sentence(code, words), fields)


def _first_line(text: str) -> str:
    return shortened(text.strip().partition("\n")[0], KEPT)


def _sentence(code: int, error: str) -> str:
    return f"exit code {code}: {shortened(error, LONGEST)}" if error else f"exit code {code}"


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters of a text, cut between words, with ` ...` if cut."""
    if len(text) <= width:
        return text
    kept = text[: width - 3]
    return (kept.rpartition(" ")[0] or kept) + " ..."
