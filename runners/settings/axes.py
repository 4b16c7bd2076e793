r"""Reads `NAME=VALUE,VALUE,...`, of which `--sweep` and `--vary` make every combination. Pure.

A comma within a value is written `\,`, a backslash before a comma `\\`; all else is itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import UsageError

NAME = re.compile(r"[A-Za-z][\w.-]*")
MOST = 100_000  # more than any Slurm takes; a slip of the finger must not fill the memory


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
    found: dict[str, list[str]] = {}
    for text in texts:
        name, values = _axis(option, text)
        if name in found:
            raise UsageError(
                f"{option.flag} {name} is there twice",
                remedy=f"{option.flag} {name}=ALL,ITS,VALUES",
            )
        found[name] = values
    count = 1
    for values in found.values():
        count *= len(values)
    if count > MOST:
        raise UsageError(f"{option.flag} makes {count} runs, more than {MOST}")
    return found


def combinations(found: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield each combination of the values, the last name's changing first."""
    for values in itertools.product(*found.values()):
        yield dict(zip(found, values))


def _axis(option: AxisOption, text: str) -> tuple[str, list[str]]:
    name, equals, rest = text.partition("=")
    name = name.lstrip("-")
    if not equals or not NAME.fullmatch(name):
        raise UsageError(
            f"{option.flag} {text!r} is not NAME=VALUE,VALUE,...",
            f"NAME is {option.meaning}",
            f"{option.flag} {option.example}",
        )
    values = _values(rest)
    double = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if "" in values or double is not None:
        what = "an empty value" if "" in values else f"the value {double!r} twice"
        raise UsageError(
            f"{option.flag} {text!r} has {what}",
            "a comma within a value is written \\,, and a backslash before a comma \\\\",
            f"{option.flag} {name}={','.join(dict.fromkeys(v for v in values if v)) or '1,2'}",
        )
    return name, values


def _values(text: str) -> list[str]:
    """Split at commas that are not escaped."""
    parts: list[str] = [""]
    for token in re.findall(r"\\[\\,]|.", text, re.DOTALL):
        if token == ",":
            parts.append("")
        else:
            parts[-1] += token[-1]
    return parts
