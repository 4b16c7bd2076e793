"""`runner compare`."""

from __future__ import annotations

from typing import Any

import click

from .. import comparison, lookup
from ..comparison import Compared
from . import runs, show, standing

EXAMPLE = """\b
Examples:
  runner compare torch_mnist-1 torch_mnist-2
  runner compare --json 42 43 44
"""


@click.command("compare", context_settings=runs.HELP, epilog=EXAMPLE)
@click.argument("names", metavar="RUN RUN...", nargs=-1, required=True)
@runs.of_runs
@click.option("--all", "every", is_flag=True, help="show the settings that agree, too")
@runs.as_json
def compare_command(
    names: tuple[str, ...], runs_dir: str | None, every: bool, as_json: bool
) -> None:
    """Show in which settings runs differ, and what each reached, side by side.

    The number of a job array stands for all of its runs. Changes are those from the first run.
    """
    folder = runs.folder(runs_dir)
    meant = [run for name in names for run in lookup.find_all(name, folder)]
    if len(meant) < 2:
        raise click.UsageError("compare needs two runs or more; runner list shows them")
    found = [comparison.of_run(*run, status) for run, status in zip(meant, standing.ask(meant))]
    show.print_json(_facts(found)) if as_json else _print(found, every)


def _facts(found: list[Compared]) -> dict[str, Any]:
    settings = comparison.rows([each.settings for each in found])
    return {"runs": [vars(each) for each in found], "differ": list(comparison.differing(settings))}


def _print(found: list[Compared], every: bool) -> None:
    settings = comparison.rows([each.settings for each in found])
    shown = settings if every else comparison.differing(settings)
    table = [[name, *map(show.text, values)] for name, values in shown.items()]
    for name, values in comparison.rows([each.measured for each in found]).items():
        table.append([name.replace("_", " "), *_measured(values)])
    show.table(table, ["", *(each.run for each in found)])
    if len(shown) < len(settings):
        agree = len(settings) - len(shown)
        click.echo(f"{agree} settings agree: --all shows them", err=True)


def _measured(values: list[Any]) -> list[str]:
    texts = [show.text(value) for value in values]
    changes = [comparison.change(value, values[0]) for value in values]
    return [f"{text}  {more}".rstrip() for text, more in zip(texts, changes)]
