"""What the facts of a run must be for an entry of `signatures/run` to fit."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Callable, Union

from ..contract import failure_kinds as kinds
from ..contract.enums import Controller
from ..contract.failure_kinds import FailureKind
from ..contract.log_text import OF_A_TYPE
from ..core.job_record import JobState
from ..core.toml_check import Rule, one_of
from .facts import Facts, LogPattern
from .findings import name_of_signal, signal_of

# In Python 3.9 annotations that are read while it runs have no X | None.
Switch = Union[bool, None]
Code = Union[int, None]
Started = Union[Controller, None]
Kind = Union[FailureKind, None]
SIGNAL = Rule("the name of a signal", signal.Signals.__members__.__contains__)
EXCEPTION = re.compile(OF_A_TYPE)
# What the log tells better than that a rank ended within MPI_Init: a second start of MPI, a PMIx
# that lacks a plugin
MPI_SAYS_WHY = (LogPattern("called after MPI_FINALIZE"), LogPattern("usable plugins for the"))


@dataclass(frozen=True)
class Conditions:
    """What the facts are to be; a field that is left out asks for nothing.

    `state` is the job's, `kind`, `signal`, `exit_code` and `guessed` are those of the first rank to
    fail, `framework` and `reason` fields of its record; `asked` is a signal that it was sent
    before. `controller`, `mpi`, `image` and `interfaces` are the plan's: the last two whether it
    has one. `no_world`: it ended before the ranks were one world, and MPI does not say why.
    `exception`: its error is one of Python's. `line`: one of these is in the log.
    """

    state: Annotated[str, one_of(*(state.value for state in JobState))] = ""
    kind: Kind = None
    signal: Annotated[str, SIGNAL] = ""
    asked: Annotated[str, SIGNAL] = ""
    exit_code: Code = None
    job_exit_code: Code = None
    guessed: Switch = None
    framework: str = ""
    reason: str = ""
    controller: Started = None
    mpi: str = ""
    image: Switch = None
    interfaces: Switch = None
    no_world: Switch = None
    exception: Switch = None
    line: tuple[LogPattern, ...] = ()

    def holding(self, facts: Facts) -> Iterator[bool]:
        """Yield for each field that is given whether it holds."""
        for condition in fields(self):
            wanted = getattr(self, condition.name)
            if wanted not in ("", None, ()):
                yield HOLDS[condition.name](facts, wanted)


def _no_world(facts: Facts) -> bool:
    return facts.kind in kinds.NO_WORLD and not any(map(facts.line, MPI_SAYS_WHY))


def _is_exception(facts: Facts) -> bool:
    by_exit = facts.kind == FailureKind.EXIT and EXCEPTION.match(facts.error)
    return facts.kind == FailureKind.EXCEPTION or bool(by_exit)


def signal_name(facts: Facts) -> str:
    """Return the name of the signal that ended the first rank to fail; "" for none."""
    return name_of_signal(signal_of(facts))


HOLDS: Mapping[str, Callable[[Facts, Any], bool]] = {
    "state": lambda facts, state: bool(facts.state.value == state),
    "kind": lambda facts, kind: facts.kind is kind,
    "signal": lambda facts, name: bool(signal_name(facts) == name),
    "asked": lambda facts, name: signal.Signals[name] in facts.fields.get("asked", ()),
    "exit_code": lambda facts, code: facts.record is not None and facts.record.exit_code == code,
    "job_exit_code": lambda facts, code: facts.exit_code == code,
    "guessed": lambda facts, is_so: facts.record is not None and facts.record.guessed is is_so,
    "framework": lambda facts, name: bool(facts.fields.get("framework") == name),
    "reason": lambda facts, name: bool(facts.fields.get("reason") == name),
    "controller": lambda facts, controller: facts.plan.controller is controller,
    "mpi": lambda facts, name: bool((facts.plan.mpi or "none") == name),
    "image": lambda facts, is_so: facts.has_image is is_so,
    "interfaces": lambda facts, is_so: bool(facts.plan.network.interfaces) is is_so,
    "no_world": lambda facts, is_so: _no_world(facts) is is_so,
    "exception": lambda facts, is_so: _is_exception(facts) is is_so,
    "line": lambda facts, patterns: any(map(facts.line, patterns)),
}


NONE = Conditions()
