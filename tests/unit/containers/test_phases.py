"""A long phase of a build shows that it is alive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from containers.build_steps import last_line
from runners.cli import progress


def test_a_phase_says_now_and_then_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_SIGNS", 0.01)
    with progress.Lines().phase("[1/6] wheels", lambda: "40 MB fetched"):
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["[1/6] wheels ...", "[1/6] wheels: 0 s so far: 40 MB fetched"]
    assert lines[-1] == "[1/6] wheels: 0 s"


def test_a_phase_that_fails_ends_its_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_SIGNS", 0.01)
    with pytest.raises(KeyError), progress.Lines().phase("compile"):
        raise KeyError
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_the_last_line_of_a_log_is_one_with_something_to_read(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert last_line(log) == ""
    log.write_text("one\n\x1b\n[ 10%] two\r[ 20%] " + "x" * 100 + "\n  \n")
    assert last_line(log) == "[ 20%] " + "x" * 53
