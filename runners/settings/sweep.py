"""What `--array` and `--sweep` ask for: the numbers of runs, and the arguments of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.errors import UsageError
from . import axes

# sbatch(1), --array: numbers and ranges, with a step, and how many run at a time: 0-15:4,20%2
RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
AT_ONCE = re.compile(r"%([1-9]\d*)$")
TASK = "SLURM_ARRAY_TASK_ID"


@dataclass(frozen=True)
class Variant:
    """One run of several: its number in the array if that was chosen, and its own arguments."""

    task: int | None = None
    varied: Mapping[str, str] = field(default_factory=dict)

    @property
    def args(self) -> tuple[str, ...]:
        """The arguments, each in one word, so that a value may begin with a dash."""
        return tuple(f"--{name}={value}" for name, value in self.varied.items())

    @property
    def text(self) -> str:
        """The same for people."""
        return " ".join(f"{name}={value}" for name, value in self.varied.items())


class Asked(NamedTuple):
    """The runs that are asked for, and how many of them may run at a time, None for all."""

    variants: list[Variant]
    at_once: int | None


def variants(array: str | None, sweeps: Sequence[str]) -> Asked | None:
    """Return the runs; None for a single one, without --array and --sweep.

    Several sweeps make each combination, the last one changing first. Raises UsageError.
    """
    if array is None and not sweeps:
        return None
    numbers, at_once = _array(array or "")
    if not sweeps:
        if not numbers:
            raise UsageError(f"--array {array!r} has no numbers", remedy="--array 0-9%4")
        return Asked([Variant(task) for task in numbers], at_once)
    if numbers:
        raise UsageError(
            "--sweep numbers its runs itself",
            f"--array {array} numbers them too",
            f"--sweep seed={','.join(str(n) for n in numbers[:10])}, or --array %4 alone, "
            "for 4 at a time",
        )
    combined = axes.combinations(axes.axes(axes.SWEEP, sweeps))
    return Asked([Variant(None, values) for values in combined], at_once)


def _array(text: str) -> tuple[list[int], int | None]:
    """Return the numbers of an --array, in order, and its limit."""
    limit = AT_ONCE.search(text)
    plain = text[: limit.start()] if limit else text
    numbers: set[int] = set()
    for part in plain.split(",") if plain else ():
        numbers.update(_range(part, text))
    return sorted(numbers), int(limit.group(1)) if limit else None


def _range(part: str, text: str) -> range:
    found = RANGE.fullmatch(part)
    if found:
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if step and first <= last < axes.MOST:
            return range(first, last + 1, step)
    raise UsageError(
        f"--array {text!r} is not a list of numbers as sbatch reads it",
        remedy="--array 0-9, --array 1,5,7, --array 0-20:5, each with %4 for 4 at a time",
    )
