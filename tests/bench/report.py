"""The table for people and the file for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .rounds import quartiles, ratios

HEADERS = ("measured", "median", "ratio", "quartiles", "to", "aim", "runs")


@dataclass(frozen=True)
class Row:
    """One thing measured, `runs` times. `median` is in `unit`; `ratio` has no unit.

    `low` and `high` are the quartiles of the rounds' ratios to what `to` names. A reference
    itself has no ratio; `aim` is empty where there is none.
    """

    what: str
    median: float
    unit: str
    runs: int
    to: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    aim: str = ""

    def cells(self) -> list[str]:
        """The row as text, in the order of HEADERS."""
        spread = "" if self.low is None else f"{self.low:.3f} to {self.high:.3f}"
        ratio = "" if self.ratio is None else f"{self.ratio:.3f}"
        median = f"{self.median:.{0 if self.median >= 100 else 1}f} {self.unit}"
        if self.unit == "s":
            median = f"{self.median:.2f} s"
        return [self.what, median, ratio, spread, self.to, self.aim, str(self.runs)]


def row(what: str, values: Sequence[float], unit: str) -> Row:
    """The row of a reference."""
    return Row(what, quartiles(values)[1], unit, len(values))


def compared(
    what: str, values: Sequence[float], unit: str, to: str, reference: Sequence[float], aim: str
) -> Row:
    """The row of something measured in turns with its reference."""
    low, ratio, high = quartiles(ratios(values, reference))
    return Row(what, quartiles(values)[1], unit, len(values), to, ratio, low, high, aim)


@dataclass(frozen=True)
class Part:
    """One part of the benchmark: its rows and samples, or why there are none.

    `samples` are the single measurements by case. `problem` begins with "skipped" when this
    machine lacks something, with "failed" when it should have run.
    """

    title: str
    rows: tuple[Row, ...] = ()
    samples: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""


def text(parts: Sequence[Part], load: tuple[float, float]) -> str:
    """The whole report, in Markdown; `load` is the load average before and after."""
    lines = [
        f"{os.cpu_count()} CPUs; load average {load[0]:.1f} before, {load[1]:.1f} after.",
        "Ratios are medians over rounds that took turns; the quartiles are the ratios'.",
    ]
    for part in parts:
        lines += ["", part.title, ""]
        if part.rows:
            cells = [HEADERS, ["---"] * len(HEADERS), *(row.cells() for row in part.rows)]
            lines += [f"| {' | '.join(row)} |" for row in cells] + [""]
        lines += [*part.notes, *([part.problem] if part.problem else [])]
    return "\n".join(lines)


def write(path: Path, parts: Sequence[Part], **facts: object) -> None:
    """Write everything as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    content = {**facts, "parts": [asdict(part) for part in parts]}
    unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)
