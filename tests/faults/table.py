"""The table of RESULTS.md, made of the outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from .fault import in_order
from .outcome import Outcome

HEAD = """\
# What happens when something fails

Written by `make test-faults`: each line was caused for real, on a cluster of Slurm 24.11 with two
nodes, where a packaged trainer with two ranks trains and the user follows the job.

- **ended after**: seconds from the fault until the user's command had ended, with this exit code.
- **said**: what the user read first about it; `runner explain` names it so afterwards.
- **left**: processes of the user or of Slurm's steps, mounts, files in `/tmp`, `/var/tmp` and
  `/dev/shm` of all nodes, after the time in brackets at the latest.
- **results**: every record and checkpoint in the run's folder was read and its checksum compared;
  a run that had finished before lay beside it and is unchanged.

Slurm gives up a node that does not answer after SlurmdTimeout, 30 s here and 300 s by default; that
is most of what a lost node takes. What ends well had up to 10 s to go, and where the controller is
killed it stays away for 15 s or more.
"""
COLUMNS = (
    "| what happened | ended after | exit | said | explained as | left | results |\n"
    + "|---" * 7
    + "|\n"
)


def wrong(outcome: Outcome) -> list[str]:
    """What should not be so."""
    left = [f"left: {line}" for line in outcome.left]
    results = [f"results: {line}" for line in outcome.results]
    return [*outcome.problems, *left, *results]


def render(outcomes: Sequence[Outcome]) -> str:
    """The whole file."""
    known = {outcome.name: outcome for outcome in outcomes}
    text, group = HEAD, ""
    for fault in in_order():
        if fault.name not in known:
            continue
        if fault.group != group:
            group = fault.group
            text += f"\n## {group}\n\n{COLUMNS}"
        text += _row(known[fault.name])
    return text


def _row(outcome: Outcome) -> str:
    seconds = "" if outcome.seconds is None else f"{outcome.seconds:.1f} s"
    code = "" if outcome.code is None else str(outcome.code)
    said = f"`{outcome.said}`".replace("|", "\\|") if outcome.said else ""
    left = "; ".join(outcome.left) or f"nothing ({outcome.gone:.0f} s)"
    results = "; ".join(outcome.results) or "whole"
    if outcome.problems:
        results += " **" + "; ".join(line.splitlines()[0] for line in outcome.problems) + "**"
    cells = (outcome.what, seconds, code, said, outcome.explained, left, results)
    return "| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |\n"


def show(outcome: Outcome) -> None:
    """A line while they run, and what is wrong."""
    word = "WRONG" if wrong(outcome) else "well"
    seconds = 0.0 if outcome.seconds is None else outcome.seconds
    line = f"{word:6} {outcome.name:22} {seconds:6.1f} s of {outcome.whole:5.1f}  {outcome.said}"
    print(line, flush=True)
    for problem in wrong(outcome):
        print(f"       {problem}", flush=True)
