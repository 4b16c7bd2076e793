"""`runner compare`."""

from __future__ import annotations

from typing import Any

import click

from ..jobs import find
from ..scale import compare
from ..scale.compare import Compared
from . import printer, run_arguments, status_view

EXAMPLE = """\b
Examples:
  runner compare torch_mnist-1 torch_mnist-2
  runner compare --json 42 43 44
"""


@click.command("compare", context_settings=run_arguments.HELP, epilog=EXAMPLE)
@click.argument("names", metavar="RUN RUN...", nargs=-1, required=True)
@run_arguments.of_runs
@click.option("--all", "every", is_flag=True, help="show the settings that agree, too")
@run_arguments.as_json
def compare_command(
    names: tuple[str, ...], runs_dir: str | None, every: bool, as_json: bool
) -> None:
    """Show in which settings runs differ, and what each reached, side by side.

    The number of a job array stands for all of its runs. Changes are those from the first run.
    """
    folder = run_arguments.folder(runs_dir)
    meant = [run for name in names for run in find.find_all(name, folder)]
    if len(meant) < 2:
        raise click.UsageError("compare needs two runs or more; runner list shows them")
    found = [compare.of_run(*run, status) for run, status in zip(meant, status_view.ask(meant))]
    printer.print_json(_facts(found)) if as_json else _print(found, every)


def _facts(found: list[Compared]) -> dict[str, Any]:
    settings = compare.rows([each.settings for each in found])
    return {"runs": [vars(each) for each in found], "differ": list(compare.differing(settings))}


def _print(found: list[Compared], every: bool) -> None:
    settings = compare.rows([each.settings for each in found])
    shown = settings if every else compare.differing(settings)
    table = [[name, *map(printer.text, values)] for name, values in shown.items()]
    for name, values in compare.rows([each.measured for each in found]).items():
        table.append([name.replace("_", " "), *_measured(values)])
    printer.table(table, ["", *(each.run for each in found)])
    if len(shown) < len(settings):
        agree = len(settings) - len(shown)
        click.echo(f"{agree} settings agree: --all shows them", err=True)


def _measured(values: list[Any]) -> list[str]:
    texts = [printer.text(value) for value in values]
    changes = [compare.change(value, values[0]) for value in values]
    return [f"{text}  {more}".rstrip() for text, more in zip(texts, changes)]
