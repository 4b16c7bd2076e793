"""`runner convert`: a Dockerfile becomes a definition, a batch script a launch line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ...batch_scripts.file_kind import FileKind, kind_of
from ...core import files
from .. import options, printer

EXAMPLE = """\b
Examples:
  runner convert Dockerfile -o my.def && runner build my.def
  runner convert job.sh
  runner convert --check job.sh
"""
HEADING = "not converted, or to be looked at:"
FOUND = 1  # exit code of --check, as that of other linters


@click.command("convert", epilog=EXAMPLE)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="output file for the definition (default: standard output)",
)
@click.option(
    "--kind",
    type=click.Choice(FileKind.words()),
    help="what the file is (default: recognized by its content)",
)
@click.option(
    "--check", is_flag=True, help="only check a batch script; exit code 1 if something is wrong"
)
@options.as_json
@click.option("--target", default="", metavar="STAGE", help="stage of a Dockerfile to end with")
def convert_command(
    file: Path, output: Path | None, kind: str | None, check: bool, as_json: bool, target: str
) -> None:
    """Convert a Dockerfile to a definition file, or a batch script to a `runner launch` line.

    Instructions that have no equivalent are listed. Keep the definition file in the Dockerfile's
    folder: it refers to the same files.

    Of a batch script (for Slurm, PBS or Cobalt) it prints the launch line that does the same, what
    is left out, what could not be carried over, and what is wrong in it. The script is never
    executed.
    """
    text = files.read_named(file)
    options = {"--output": output, "--target": target, "--check": check, "--json": as_json}
    given = [option for option, value in options.items() if value]
    chosen = FileKind(kind) if kind else None
    if kind_of(text, str(file), given, chosen) is FileKind.BATCH:
        _batch(text, file, check, as_json)
    else:
        _dockerfile(text, file, output, target)


def _batch(text: str, file: Path, check: bool, as_json: bool) -> None:
    from ...batch_scripts import report

    if check:
        findings = report.check(text, str(file))
        value: Any = report.findings_as_json(findings)
        lines = report.findings_as_text(findings)
    else:
        made = report.convert(text, str(file))
        value, lines = report.as_json(made), report.as_text(made)
    if as_json:
        printer.print_json(value)
    for line in () if as_json else lines:
        click.echo(line)
    if check and findings:
        sys.exit(FOUND)


def _dockerfile(text: str, file: Path, output: Path | None, target: str) -> None:
    from containers.dockerfile.convert import convert

    made = convert(file, text, target, output.name if output else "")
    if output is None:
        click.echo(made.text, nl=False)
    else:
        files.write_named(output, made.text)
    lines = [*map(str, made.notes), *made.refused.splitlines()]
    for line in [HEADING, *(f"  {line}" for line in lines)] if lines else []:
        click.echo(line, err=True)
