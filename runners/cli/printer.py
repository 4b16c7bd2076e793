"""What the commands print: tables, numbers and times for people, JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from typing import Any

import click

from ..core.job_record import Status
from ..schedulers.pending_reasons import in_words
from . import table as fit_table

DAY = 86400


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def tell(text: str) -> None:
    """Print a sentence of ours, to stderr."""
    click.echo(f"runner: {text}", err=True)


def table(
    rows: Sequence[Sequence[Any]], headers: Sequence[str], spare: Collection[str] = ()
) -> None:
    """Print rows under headers, as wide as the terminal at most, whole where there is none.

    Columns named in `spare` may be left out, and then that is said.
    """
    shown = fit_table.fitted(rows, headers, spare, fit_table.width())
    click.echo(shown.text)
    if shown.left_out:
        click.echo(f"no room for: {', '.join(shown.left_out)} (see --json)", err=True)


def json_or_table(
    as_json: bool,
    value: Any,
    rows: Sequence[Sequence[Any]],
    headers: Sequence[str],
    spare: Collection[str] = (),
) -> None:
    """Print a value as JSON, or for people rows under headers."""
    if as_json:
        print_json(value)
    else:
        table(rows, headers, spare)


def result_table(result: dict[str, Any]) -> None:
    """Print a trainer's result, one fact a line, nested ones with a dot."""
    table([[name, text] for name, text in _flat(result)], headers=[])


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, text(item)))
    return rows


def text(item: Any) -> str:
    """Return a value of a result as it is read: four digits, lists without brackets, - for none."""
    if isinstance(item, float):
        return f"{item:.4g}" if abs(item) < 1000 else f"{item:.1f}"
    if isinstance(item, list):
        return ", ".join(text(part) for part in item) or "-"
    return "-" if item is None else str(item)


def describe(status: Status, limit: int = 0) -> str:
    """Return a status in words; `limit` is how often the job may come back."""
    restart = f"restart {status.restart}" if status.restart else ""
    if restart and limit:
        restart += f" of {limit}"
    more = ", ".join(text for text in (in_words(status.reason), restart) if text)
    return status.state.value + (f" ({more})" if more else "")


def span(seconds: float | None) -> str:
    """Return seconds as 0:07, 1:02:03 or 2-03:04:05, as Slurm writes them; "" for None."""
    if seconds is None:
        return ""
    minutes, secs = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def moment(when: float, now: float) -> str:
    """Return a time of day, with the date where it is not within the next, or last, 12 hours."""
    form = "%H:%M" if abs(when - now) < DAY / 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(when))


def stamp(when: float | None) -> str | None:
    return None if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
