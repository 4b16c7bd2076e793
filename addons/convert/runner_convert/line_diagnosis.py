"""What is said of a line of the file that is converted."""

from __future__ import annotations

from dataclasses import dataclass

from runners.core.diagnosis import Diagnosis


@dataclass(frozen=True)
class LineDiagnosis(Diagnosis):
    """A diagnosis of a `line`, 0 for the whole file; its remedies are advice."""

    line: int = 0

    @property
    def place(self) -> str:
        return f"line {self.line}: " if self.line else ""

    def __str__(self) -> str:
        """Return all of it as one line."""
        return self.place + ": ".join((self.what, *map(str, self.remedies)))
