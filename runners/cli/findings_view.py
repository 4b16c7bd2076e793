"""The doctor's findings for people: by subject, the worst last, with colours on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.command_line import CommandLine
from ..doctor.finding import FAILURE, OK, WARNING, Finding, counts, grouped
from . import suggest

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {OK: "green", WARNING: "yellow", FAILURE: "bold red"}
WIDTH = max(map(len, COLOURS)) + 2


def show(findings: list[Finding], typed: CommandLine) -> None:
    """Print the findings and how many there are of each kind; `typed` asked for them."""
    # rich costs 60 ms; it knows terminals, their colours and NO_COLOR.
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for subject, group in grouped(findings):
        console.print(subject, style="bold")
        for finding in group:
            _one(console, finding, typed)
    console.print(", ".join(_counted(*pair) for pair in counts(findings).items()))


def _counted(state: str, count: int) -> str:
    return f"{count} {state}{'' if state == OK or count == 1 else 's'}"


def _one(console: Console, finding: Finding, typed: CommandLine) -> None:
    console.print(f"  {finding.state:<{WIDTH}}", style=COLOURS[finding.state], end="")
    console.print(f"{finding.name}: {finding.says}")
    for line in finding.evidence.splitlines():
        console.print(f"  {'':<{WIDTH}}{line}", style="dim")
    for remedy in finding.remedies:
        console.print(f"  {'':<{WIDTH}}try: {suggest.text(remedy, typed)}")
