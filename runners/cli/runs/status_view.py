"""How runs stand, as facts for programs and as rows for eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...core import diagnosis
from ...core.job_record import Job, JobState
from ...core.text import span
from ...jobs.find_run import Runs
from ...monitoring import run_status, stalls, wording
from ...monitoring.resource_use import RunUse
from ...monitoring.run_status import RunDetails, RunStatus
from ...settings import suggest
from .. import printer

HEADERS = ["id", "run", "state", "nodes", "elapsed", "left", "step", "loss", "rate", "exit", "why"]
SPARE = ("nodes", "left", "rate")  # where the terminal is narrow


def show(runs: Runs, as_json: bool) -> None:
    """Print how runs stand, a row for each."""
    statuses = run_status.of_runs(runs, printer.Console())
    rows, headers = table(statuses)
    printer.json_or_table(as_json, [facts(status) for status in statuses], rows, headers, SPARE)


def details(known: RunDetails) -> dict[str, Any]:
    """Return the facts of one run, and what else there is to say of it."""
    more: dict[str, Any] = {}
    if known.status.state == JobState.STOPPED:
        more.update(saved_step=known.saved_step, go_on=known.resume)
    if known.stall:
        more["stalled"] = stalls.in_words(known.stall)
        more["ranks"] = [row._asdict() for row in known.stall.rows]
    if known.weights:
        said = (known.weights.get(name) for name in ("text", "warning"))
        words = "; warning: ".join(str(text) for text in said if text)
        more["weights"] = f"{known.weights.get('result')}: {words}"
    if known.use:
        more["use"] = known.use.value
    first = known.first_to_fail
    return {**facts(known.status), **more, "first_to_fail": str(first) if first else None}


def facts(status: RunStatus) -> dict[str, Any]:
    """Return the facts of a run: times in seconds, the newest numbers of its training."""
    return {
        **vars(status),
        "state": status.state.name,
        "submitted": wording.stamp(status.submitted),
        "start_expected": wording.stamp(status.start_expected),
        "folder": str(status.folder),
        "varied": dict(status.varied),
    }


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


def in_words(known: RunDetails) -> dict[str, Any]:
    """Return what is known of a run, each fact as it is read by people."""
    status = known.status
    row: dict[str, Any] = {
        **details(known),
        "state": status.state.value,
        "elapsed": span(status.elapsed),
        "left": span(status.left),
        "step": step(status),
        "rate": rate(status),
        "varied": varied(status.varied),
    }
    for name in ("reason", "steps", "unit"):  # told by another
        del row[name]
    for name in ("use", "ranks"):  # tables of their own
        row.pop(name, None)
    return {name.replace("_", " "): value for name, value in row.items() if value not in ("", None)}


def use_lines(used: RunUse, job: Job) -> Iterator[str]:
    """Yield what was found of a run's use of its nodes, with the command that fixes it."""
    typed = partial(suggest.text, typed=job.typed)
    for finding in used.findings:
        sentence, *more = diagnosis.lines(finding, typed)
        yield from (f"runner: {visible(sentence)}", *more)


def use_table(used: RunUse) -> tuple[list[list[str]], list[str]]:
    rows, headers = used.table
    return [[visible(cell) for cell in row] for row in rows], headers
