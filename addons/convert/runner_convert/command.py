"""The command: its options, one call, and what it prints."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import click

from runners.core import atomic
from runners.core.errors import UsageError

from .batch_scripts.file_kind import FileKind, kind_of

EXAMPLE = """\b
Examples:
  runner convert Dockerfile -o my.def && runner build my.def
  runner convert my.def -o Dockerfile
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
    help="output file for the definition or Dockerfile (default: standard output)",
)
@click.option(
    "--kind",
    type=click.Choice(FileKind.words()),
    help="what the file is (default: recognized by its content)",
)
@click.option(
    "--check", is_flag=True, help="only check a batch script; exit code 1 if something is wrong"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--target", default="", metavar="STAGE", help="stage of a Dockerfile to end with")
def convert_command(
    file: Path, output: Path | None, kind: str | None, check: bool, as_json: bool, target: str
) -> None:
    """Convert a Dockerfile to a definition file or back, or a batch script to a launch line.

    Instructions that have no equivalent are listed. Keep the output in the folder of FILE: it
    refers to the same files. A Dockerfile is for Podman and Docker, where Shifter or podman-hpc
    runs the image.

    Of a batch script (for Slurm, PBS or Cobalt) it prints the launch line that does the same, what
    is left out, what could not be carried over, and what is wrong in it. The script is never
    executed.
    """
    text = read(file)
    options = {"--output": output, "--target": target, "--check": check, "--json": as_json}
    given = [option for option, value in options.items() if value]
    chosen = FileKind(kind) if kind else None
    found = kind_of(text, str(file), given, chosen)
    if found is FileKind.BATCH:
        _batch(text, file, check, as_json)
    elif found is FileKind.DEFINITION:
        _definition(text, file, output)
    else:
        _dockerfile(text, file, output, target)


def _batch(text: str, file: Path, check: bool, as_json: bool) -> None:
    from .batch_scripts import script_report

    if check:
        findings = script_report.check(text, str(file))
        value: Any = script_report.findings_as_json(findings)
        lines = script_report.findings_as_text(findings)
    else:
        made = script_report.convert(text, str(file))
        value, lines = script_report.as_json(made), script_report.as_text(made)
    if as_json:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    for line in () if as_json else lines:
        click.echo(line)
    if check and findings:
        sys.exit(FOUND)


def _dockerfile(text: str, file: Path, output: Path | None, target: str) -> None:
    from .dockerfile.convert import convert

    written = output or of_stdout()
    made = convert(file, text, target, written.name if written else "")
    build = shlex.join(["runner", "build", str(written or "my.def")])
    _write(made.text, output, [*map(str, made.notes), *made.refused.splitlines()], build)


def _definition(text: str, file: Path, output: Path | None) -> None:
    from .dockerfile.from_definition import convert

    made, folder = convert(file, text), shlex.quote(str(file.parent))
    written = output or of_stdout() or "Dockerfile"
    build = f"podman build -t NAME -f {shlex.quote(str(written))} {folder}"
    _write(made.text, output, list(map(str, made.notes)), build)


def _write(text: str, output: Path | None, notes: list[str], following: str) -> None:
    """Say what is missing, write what was made, and say how it is built."""
    for line in [HEADING, *(f"  {note}" for note in notes)] if notes else []:
        click.echo(line, err=True)
    if output is None:
        click.echo(text, nl=False)
        first = "" if of_stdout() else "write it to a file with -o, and build that: "
        click.echo(f"next: {first}{following}", err=True)
    else:
        write(output, text)
        click.echo(f"wrote {output}; next: {following}", err=True)


def read(path: Path) -> str:
    """Return the text of a file that the user named; raise UsageError for one that is none."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text", str(error), id="input-not-text") from None
    except OSError as error:
        raise UsageError(
            f"cannot read {path}", str(error.strerror), id="input-unreadable"
        ) from None
    if "\0" in text:
        raise UsageError(f"{path} is not text", "it has bytes that are 0", id="input-not-text")
    return text


def write(path: Path, text: str) -> None:
    """Write a file that the user named; raise UsageError where it cannot be written."""
    try:
        atomic.write_text(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}", str(error), id="output-not-written") from None


def of_stdout() -> Path | None:
    """Return the file that the shell has made of stdout by `> FILE`; None for anything else."""
    try:
        number = sys.stdout.fileno()
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        regular = stat.S_ISREG(os.fstat(number).st_mode) and path.exists()
    except OSError:  # no descriptor, or no /proc
        return None
    here = Path.cwd()
    return (path.relative_to(here) if here in path.parents else path) if regular else None
