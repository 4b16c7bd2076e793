"""The README: its reference is the commands' own help, and every command is documented."""

from __future__ import annotations

import re

import click
import pytest

from runners.cli import cli
from tests import reference

TEXT = reference.README.read_text()
COMMANDS = dict(reference.commands(cli, ("runner",)))


def test_reference_is_current() -> None:
    assert reference.updated(TEXT) == TEXT, "run: make reference"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert "Example" in (command.epilog or "")
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    undocumented = [p.name for p in options if not p.help]
    assert undocumented == []


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (reference.README.parent / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z][a-z-]+)\b", TEXT):
        assert re.search(rf"^[a-z -]*\b{target}\b[a-z -]*:", makefile, re.MULTILINE), target


def test_exit_codes_are_all_documented() -> None:
    from runners.cli import exit_codes
    from runners.injob.rank.gate import EXIT_WORLD_SIZE

    for code in (
        exit_codes.FAULT,
        exit_codes.USAGE,
        exit_codes.REFUSED,
        exit_codes.NOT_VERIFIED,
        EXIT_WORLD_SIZE,
        *exit_codes.BY_STATE.values(),
    ):
        assert re.search(rf"^\| {code} \|", TEXT, re.MULTILINE), code
