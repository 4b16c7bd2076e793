"""Why a rank failed, as a value that travels between the ranks and into the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Why a rank failed: a kind of KINDS, a sentence for people, and the fields of its kind."""

    kind: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels between the ranks."""
        return {"kind": self.kind, "text": self.text, "fields": dict(self.fields)}
