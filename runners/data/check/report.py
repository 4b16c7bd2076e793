"""What a check finds: facts, and files that are wrong, each named with what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """Grows while a dataset is looked at. `kind` is "unknown" where nothing fits."""

    kind: str = "unknown"
    facts: dict[str, Any] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def fact(self, name: str, value: Any) -> None:
        """Note a number or a word about the whole."""
        self.facts[name] = value

    def fault(self, file: str, what: str) -> None:
        """Note a file, by its path below the dataset, and what is wrong with it."""
        self.faults.append((file, what))
