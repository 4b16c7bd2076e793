"""How runs stand, a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.text import span
from ...jobs.find_run import Runs
from ...monitoring import run_status, wording
from ...monitoring.run_status import RunStatus
from .. import printer

HEADERS = ["id", "run", "state", "nodes", "elapsed", "left", "step", "loss", "rate", "exit", "why"]
SPARE = ("nodes", "left", "rate")  # where the terminal is narrow


def show(runs: Runs, as_json: bool) -> None:
    """Print how runs stand, a row for each."""
    statuses = run_status.of_runs(runs, printer.Console())
    facts = [run_status.facts(status) for status in statuses]
    rows, headers = table(statuses)
    printer.json_or_table(as_json, facts, rows, headers, SPARE)


def table(runs: Sequence[RunStatus]) -> tuple[list[list[str]], list[str]]:
    """Return rows and headers; of a sweep's runs also in which arguments they differ."""
    if not any(status.varied for status in runs):
        return [row(status) for status in runs], HEADERS
    rows = [[*row(status)[:2], varied(status.varied), *row(status)[2:]] for status in runs]
    return rows, [*HEADERS[:2], "arguments", *HEADERS[2:]]


def varied(arguments: Mapping[str, str]) -> str:
    return visible(" ".join(f"{name}={value}" for name, value in arguments.items()))


def visible(text: str) -> str:
    """Return a text in which all that is no visible character is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def row(status: RunStatus) -> list[str]:
    """Return how a run stands as texts below HEADERS."""
    start = wording.stamp(status.start_expected)
    why = status.why + (f", to start at {start[:16]} or before" if start else "")
    return [
        status.id,
        status.folder.name,
        status.state.value,
        status.nodes,
        span(status.elapsed),
        span(status.left),
        step(status),
        "" if status.loss is None else f"{status.loss:.4g}",
        rate(status),
        "" if status.exit_code is None else str(status.exit_code),
        why,
    ]


def step(status: RunStatus) -> str:
    """Return how far it is: 100/368, or 100."""
    if status.step is None:
        return ""
    return str(status.step) + (f"/{status.steps}" if status.steps else "")


def rate(status: RunStatus) -> str:
    """Return how fast it is: 8012 samples/s."""
    return "" if status.rate is None else f"{status.rate:.0f} {status.unit}/s"
