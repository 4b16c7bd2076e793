"""Lets spython write the definition, and puts the texts back into it."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import spython_adapter
from .parse import SHELL
from .stage import Reader, Stage

TOKEN = re.compile("\ue000(\\d+)\ue001")
SETTING = re.compile(rf"\w+={TOKEN.pattern}")


def write(reader: Reader) -> str:
    """Return the definition of what was read. Raises SystemFault."""
    stages, last = reader.needed(), reader.stage
    script = runscript(last.entrypoint, last.command)
    run = reader.token(script)
    # spython would join the words of both; with "exec" and "$@" in it, it leaves a line alone.
    entry = f'exec {run} "$@"'
    last.lines.append(f"ENTRYPOINT {entry}")
    text = _by_spython(stages, reader)
    if not script:
        text = text.partition("%runscript")[0]  # the base's own stays
    return "\n".join(_finished(text.replace(entry, run), stages, reader.values)).strip() + "\n"


def _by_spython(stages: Sequence[Stage], reader: Reader) -> str:
    lines: list[str] = []
    for stage in stages:
        lines += [f"FROM {reader.token(stage.base)} AS {stage.name}", *stage.lines]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "Dockerfile")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return spython_adapter.definition(path)


def _finished(text: str, stages: Sequence[Stage], values: Sequence[str]) -> Iterator[str]:
    """The lines of a definition, with arguments after each header."""
    left, section = iter(stages), ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("Bootstrap:"):
            section, stage = "", next(left)
            yield from _header(stage, len(stages) > 1)
        elif line.startswith("%"):
            section = line[1:]
            yield from ("", line)
        elif section:
            yield f"    {_with_texts(line, section, values)}"


def _header(stage: Stage, named: bool) -> Iterator[str]:
    yield ""
    if stage.base == "scratch":
        yield "Bootstrap: scratch"
    else:
        yield from ("Bootstrap: docker", f"From: {stage.base}")
    if named:
        yield f"Stage: {stage.name}"
    if stage.arguments:
        yield from ("", "%arguments")
        yield from (f"    {name}={value}" for name, value in stage.arguments.items())


def _with_texts(line: str, section: str, values: Sequence[str]) -> str:
    text = TOKEN.sub(lambda match: values[int(match[1])], line)
    # spython sets variables in %post without handing them on to programs.
    return f"export {text}" if section == "post" and SETTING.fullmatch(line) else text


def runscript(entrypoint: list[str] | None, command: list[str] | None) -> str:
    """What runs without words of the user's; "" when the base's own shall.

    As in Docker, the user's words take the place of CMD and follow ENTRYPOINT.
    """
    if entrypoint and tuple(entrypoint[:2]) == SHELL:
        return f"exec {shlex.join(entrypoint)}"
    default = f"[ $# -gt 0 ] || set -- {shlex.join(command)}\n    " if command else ""
    if entrypoint:
        return f'{default}exec {shlex.join(entrypoint)} "$@"'
    return f'{default}exec "$@"' if command else ""
