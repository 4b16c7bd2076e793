"""Why a rank failed, as a value that travels between the ranks and into the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import failure_kinds as kinds


@dataclass(frozen=True)
class Problem:
    """Why a rank failed: a kind of KINDS, a sentence for people, and the fields of its kind."""

    kind: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "fields": dict(self.fields)}


class RendezvousError(Exception):
    """The ranks could not meet; `problem` says which of them is missing, and where."""

    def __init__(self, kind: str, text: str, **fields: Any) -> None:
        super().__init__(text)
        self.problem = Problem(kind, text, fields)


def problem_of(error: RendezvousError | OSError) -> Problem:
    """Return the problem that an error at the rendezvous, or one of the system's, is."""
    if isinstance(error, RendezvousError):
        return error.problem
    return Problem(kinds.RENDEZVOUS, str(error))
