"""`runner compare`: prints settings and results of runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ...scale import compare
from ...scale.compare import Compared, Comparison
from .. import options, printer

EXAMPLE = """\b
Examples:
  runner compare torch_mnist-1 torch_mnist-2
  runner compare --sort samples_per_s torch_mnist-1 torch_mnist-2 torch_mnist-3
  runner compare --json 42 43 44
"""


@click.command("compare", epilog=EXAMPLE)
@click.argument("names", metavar="RUN RUN...", nargs=-1, required=True)
@options.runs_dir
@click.option("--all", "every", is_flag=True, help="also show the settings that are equal")
@options.sort
@options.as_json
def compare_command(
    names: tuple[str, ...], runs_dir: str | None, every: bool, sort: str | None, as_json: bool
) -> None:
    """Compare the settings and the results of runs, the best first.

    The ID of a job array stands for all of its runs. Changes are relative to the best run; where
    the results have no number in common, to the first run named.
    """
    meant = [run for name in names for run in options.find_all(name, runs_dir)]
    if len(meant) < 2:
        raise click.UsageError("compare needs at least two runs; runner list shows them")
    runs = compare.of_runs(meant, printer.Console())
    printer.tell_first([run.odd for run in runs if run.odd])
    compared = compare.compare(runs, sort)
    if as_json:
        printer.print_json(compared.facts)
    else:
        _print(compared, every)


def _print(compared: Comparison, every: bool) -> None:
    metric, best, settings = compared.metric, compared.best, compared.settings
    shown = settings if every else compared.differing
    needed = ["state", *([metric] if metric else [])]
    spare = [name for name in compared.numbers if name not in needed]
    _table(compared.ordered, shown, [*needed, *spare], spare)
    if len(shown) < len(settings):
        click.echo(f"{len(settings) - len(shown)} settings agree: --all shows them", err=True)
    if metric and best:
        value = printer.text(best.measured[metric])
        click.echo(f"best {metric}: {best.run}, {value}; changes are against it", err=True)


def _table(
    ordered: Sequence[Compared],
    settings: Sequence[str],
    reached: Sequence[str],
    spare: Sequence[str],
) -> None:
    """Print a line for each run; few runs that differ in more than fits get a column each."""
    first = ordered[0].numbers
    rows = [
        [run.run, *(printer.text(run.settings.get(name)) for name in settings)]
        + [_measured(name, run.numbers.get(name), first.get(name)) for name in reached]
        for run in ordered
    ]
    headers = ["run", *settings, *reached]
    needed = [place for place, name in enumerate(headers) if name not in spare]
    least = [[row[place] for place in needed] for row in [headers, *rows]]
    columns = [list(column) for column in zip(headers, *rows)]
    wide, room = printer.table_width(least), printer.width()
    if room and wide > room and wide > printer.table_width(columns):
        printer.table(columns[1:], columns[0])
    else:
        printer.table(rows, headers, spare)


def _measured(name: str, value: Any, first: Any) -> str:
    return f"{printer.text(value)} {compare.change(name, value, first)}".rstrip()
