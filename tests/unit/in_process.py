"""`runner` in the test's own process: what it prints, without the start of a Python."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from runners.cli import main
from runners.core import command_signals


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> Done:
    """Run `runner WORDS...` in the current folder."""
    monkeypatch.setattr(command_signals, "listen", lambda tell: None)
    monkeypatch.setattr(sys, "argv", ["runner", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    assert isinstance(code, int)
    return Done(code, *capsys.readouterr())
