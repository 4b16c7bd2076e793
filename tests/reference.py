"""Writes the command reference in README.md from the commands' own help; a test compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from runners.cli import cli

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- reference: make reference -->", "<!-- end of the reference -->"


def commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and getattr(command, "invoke_without_command", True):
            yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def reference() -> str:
    """Return the reference: each command's help as `runner COMMAND --help` prints it."""
    texts = []
    for name, command in commands(cli, ("runner",)):
        settings = {"terminal_width": 90, "max_content_width": 90, **command.context_settings}
        context = click.Context(command, info_name=name, **settings)
        texts.append(f"```text\n{command.get_help(context).rstrip()}\n```")
    return "\n\n".join(texts)


def updated(text: str) -> str:
    """Return the README's text with the reference in its place."""
    found = re.search(f"{re.escape(BEGIN)}.*{re.escape(END)}", text, re.DOTALL)
    assert found is not None, "README.md has lost the marks around its reference"
    return text[: found.start()] + f"{BEGIN}\n{reference()}\n{END}" + text[found.end() :]


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
