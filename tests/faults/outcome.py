"""What came of a fault."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """One line of the table.

    `seconds` is from the fault until the client had ended, or the job where there is no client;
    None when nothing had to end. `left` is what was there SETTLE_SECONDS later; `gone` how long it
    took until nothing was. `problems` are what should not be so.
    """

    name: str
    what: str
    seconds: float | None = None
    code: int | None = None
    said: str = ""
    explained: str = ""
    left: list[str] = field(default_factory=list)
    gone: float = 0.0
    results: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    whole: float = 0.0  # seconds for all of it, preparations included

    def save(self, folder: Path) -> None:
        """Keep it, by its name."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=2) + "\n")


def load(path: Path) -> Outcome:
    """Read one that was kept."""
    return Outcome(**json.loads(path.read_text()))
