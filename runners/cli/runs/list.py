"""`runner list`: the runs of a folder."""

from __future__ import annotations

from pathlib import Path

import click

from ...core import quoting
from ...jobs import find_run
from .. import options, printer
from . import runs_table


@click.command("list", epilog="Example: runner list --json")
@options.runs_dir
@options.as_json
def list_command(runs_dir: str | None, as_json: bool) -> None:
    """List the runs, oldest first."""
    folder = options.folder(runs_dir)
    runs = find_run.all_runs(folder)
    if not (runs or as_json):
        _none(folder)
    runs_table.show(runs, as_json)


def _none(folder: Path) -> None:
    """Say that there is nothing here, and where there is something."""
    others = find_run.other_folders(folder)[: find_run.LISTED]
    printer.tell(f"no runs in {folder}")
    for folder in others:
        click.echo(f"  there are some in {folder}", err=True)
    if others:
        text = quoting.join(["runner", "list", "--runs-dir", str(others[0])])
        click.echo(f"  try: {text}", err=True)
