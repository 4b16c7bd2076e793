"""The text of a definition: headers and arguments of ours, sections of spython's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from .. import spython_adapter
from .parse import SHELL
from .stage import Reader, Stage

INDENT = "    "


def write(reader: Reader) -> str:
    """Return the definition of what was read."""
    stages, last = reader.needed(), reader.stage
    last.recipe.entrypoint = runscript(last.entrypoint, last.command)
    blocks = [block for stage in stages for block in _blocks(stage, len(stages) > 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _blocks(stage: Stage, named: bool) -> Iterator[list[str]]:
    source = [f"From: {stage.base}"] if stage.base != "scratch" else []
    bootstrap = "docker" if source else "scratch"
    yield [f"Bootstrap: {bootstrap}", *source, *([f"Stage: {stage.name}"] if named else [])]
    if stage.arguments:
        arguments = stage.arguments.items()
        yield ["%arguments", *(f"{INDENT}{name}={value}" for name, value in arguments)]
    yield from spython_adapter.sections(stage.recipe, INDENT)


def runscript(entrypoint: list[str] | None, command: list[str] | None) -> str:
    """What runs without words of the user's; "" when the base's own shall.

    As in Docker, the user's words take the place of CMD and follow ENTRYPOINT.
    """
    if entrypoint and tuple(entrypoint[:2]) == SHELL:
        return f"exec {shlex.join(entrypoint)}"
    default = f"[ $# -gt 0 ] || set -- {shlex.join(command)}\n{INDENT}" if command else ""
    if entrypoint:
        return f'{default}exec {shlex.join(entrypoint)} "$@"'
    return f'{default}exec "$@"' if command else ""
