r"""Parses `--array`, `--sweep` and `--vary`: run numbers and combinations of values. Pure.

In `NAME=VALUE,VALUE,...` a comma within a value is written `\,`, a backslash before a comma `\\`;
all else is itself.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.errors import UsageError

NAME = re.compile(r"[A-Za-z][\w.-]*")
MOST = 100_000  # more than any Slurm takes; a slip of the finger must not fill the memory
# sbatch(1), --array: numbers and ranges, with a step, and how many run at a time: 0-15:4,20%2
RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
AT_ONCE = re.compile(r"%([1-9]\d*)$")
TASK = "SLURM_ARRAY_TASK_ID"


@dataclass(frozen=True)
class SweepRun:
    """One run of several: its number in the array if that was chosen, and its own arguments."""

    task: int | None = None
    varied: Mapping[str, str] = field(default_factory=dict)

    @property
    def args(self) -> tuple[str, ...]:
        """The arguments, each in one word, so that a value may begin with a dash."""
        return tuple(f"--{name}={value}" for name, value in self.varied.items())


class SweepRequest(NamedTuple):
    """The runs that are asked for, and how many of them may run at a time, None for all."""

    variants: list[SweepRun]
    at_once: int | None


def variants(array: str | None, sweeps: Sequence[str]) -> SweepRequest:
    """Return the runs of --array or --sweep, of which one at least was given.

    Several sweeps make each combination, the last one changing first. Raises UsageError.
    """
    numbers, at_once = _array(array or "")
    if not sweeps:
        if not numbers:
            raise UsageError(
                f"--array {array!r} has no numbers",
                remedy="--array 0-9%4",
                id="array-without-numbers",
            )
        return SweepRequest([SweepRun(task) for task in numbers], at_once)
    if numbers:
        raise UsageError(
            "--sweep numbers its runs itself",
            f"--array {array} numbers them too",
            f"--sweep seed={','.join(str(n) for n in numbers[:10])}, or --array %4 alone, "
            "for 4 at a time",
            id="sweep-and-array",
        )
    combined = combinations(axes(SWEEP, sweeps))
    return SweepRequest([SweepRun(None, values) for values in combined], at_once)


def _array(text: str) -> tuple[list[int], int | None]:
    """Return the numbers of an --array, in order, and its limit."""
    limit = AT_ONCE.search(text)
    plain = text[: limit.start()] if limit else text
    numbers: set[int] = set()
    for part in plain.split(",") if plain else ():
        numbers.update(_range(part, text))
    return sorted(numbers), int(limit.group(1)) if limit else None


def _range(part: str, text: str) -> range:
    match = RANGE.fullmatch(part)
    if match:
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if step and first <= last < MOST:
            return range(first, last + 1, step)
    raise UsageError(
        f"--array {text!r} is not a list of numbers as sbatch reads it",
        remedy="--array 0-9, --array 1,5,7, --array 0-20:5, each with %4 for 4 at a time",
        id="array-malformed",
    )


@dataclass(frozen=True)
class AxisOption:
    """An option of this form: its name, what a NAME is, and an example."""

    flag: str
    meaning: str
    example: str


SWEEP = AxisOption(
    "--sweep", "an argument of the trainer, such as base-lr for --base-lr", "base-lr=0.1,0.01"
)
VARY = AxisOption("--vary", "a setting of runner launch, or trainer", "controller=gloo,mpi")


def axes(option: AxisOption, texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the values by name; raise UsageError for what would make two runs the same."""
    values_by_name: dict[str, list[str]] = {}
    for text in texts:
        name, values = _axis(option, text)
        if name in values_by_name:
            raise UsageError(
                f"{option.flag} {name} is there twice",
                remedy=f"{option.flag} {name}=ALL,ITS,VALUES",
                id="axis-named-twice",
            )
        values_by_name[name] = values
    count = math.prod(map(len, values_by_name.values()))
    if count > MOST:
        raise UsageError(f"{option.flag} makes {count} runs, more than {MOST}", id="too-many-runs")
    return values_by_name


def combinations(values_by_name: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield each combination of the values, the last name's changing first."""
    for values in itertools.product(*values_by_name.values()):
        yield dict(zip(values_by_name, values))


def _axis(option: AxisOption, text: str) -> tuple[str, list[str]]:
    name, equals, rest = text.partition("=")
    name = name.lstrip("-")
    if not equals or not NAME.fullmatch(name):
        raise UsageError(
            f"{option.flag} {text!r} is not NAME=VALUE,VALUE,...",
            f"NAME is {option.meaning}",
            f"{option.flag} {option.example}",
            id="axis-malformed",
        )
    values = _values(rest)
    double = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if "" in values or double is not None:
        problem = "an empty value" if "" in values else f"the value {double!r} twice"
        raise UsageError(
            f"{option.flag} {text!r} has {problem}",
            "a comma within a value is written \\,, and a backslash before a comma \\\\",
            f"{option.flag} {name}={','.join(dict.fromkeys(v for v in values if v)) or '1,2'}",
            id="axis-values-malformed",
        )
    return name, values


def _values(text: str) -> list[str]:
    """Split at commas that are not escaped."""
    parts: list[str] = [""]
    for piece in re.findall(r"\\[\\,]|.", text, re.DOTALL):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece[-1]
    return parts
