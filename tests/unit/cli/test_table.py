"""Tables: as wide as the terminal at most, whole where there is none."""

from __future__ import annotations

import sys

import pytest

from runners.cli import printer, progress
from runners.contract import log_text

HEADERS = ["run", "why", "state", "accuracy", "loss"]
ROWS = [
    ["torch_mnist-1 on two nodes of one rank", "", "completed", "0.97 of 1 in four epochs", "0.1"],
    ["torch_mnist-2", "", "failed", "0.9", "0.2"],
]
Capture = pytest.CaptureFixture[str]


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print to a terminal, which is taken to have 80 columns at least."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_a_terminal_is_told_nothing_by_others_words(capsys: Capture) -> None:
    """Such as those in a lock file of a shared folder, or of a registry."""
    text = "waiting for \x1b]0;title\x07\x1b[31mbob\x1b[m"
    printer.tell(text)
    printer.table([[text]], ["one"])
    progress.Lines().say(text)
    said = capsys.readouterr()
    assert said.out.count(r"\x1b]0;title\x07bob") == 1
    assert said.err.count(r"\x1b]0;title\x07bob") == 2
    assert not log_text.CONTROL.search(said.out + said.err)


@pytest.mark.parametrize("environment", [{}, {"TERM": "dumb", "FORCE_COLOR": "1"}])
def test_without_a_terminal_a_row_is_a_line_however_wide(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    printer.table([["x" * 300, "a b " * 90]], ["one", "two"])
    head, row = capsys.readouterr().out.splitlines()
    assert head == "one" + " " * 299 + "two"
    assert row == f"{'x' * 300}  {('a b ' * 90).rstrip()}"


def test_an_empty_table_is_no_line_and_a_tab_no_new_one(capsys: Capture) -> None:
    printer.result_table({})
    assert capsys.readouterr().out == ""
    printer.result_table({"c": "x\ty"})
    assert capsys.readouterr().out == "c  x       y\n"


def test_empty_columns_go_first_then_those_that_can_be_spared(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_terminal(monkeypatch)
    printer.table(ROWS, HEADERS, ("accuracy", "loss"))
    shown = capsys.readouterr()
    wide = "torch_mnist-1 on two nodes of one rank"
    assert shown.out.splitlines() == [
        f"{'run':38}  state      accuracy",
        f"{wide}  completed  0.97 of 1 in four epochs",
        f"{'torch_mnist-2':38}  failed     0.9",
    ]
    assert shown.err == "no room for: loss (see --json)\n"


def test_long_texts_are_folded_between_words(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_terminal(monkeypatch)
    because = (
        "8 nodes of 4 GPUs each [red], since --gpus 32 was asked for, and a node has four :+1:"
    )
    printer.table([["nodes", because]], ["choice", "because"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["choice", "nodes"]
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[1:]).split()) == f"nodes {because}"


def test_a_word_that_is_too_long_is_cut(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    at_terminal(monkeypatch)
    printer.table([["/scratch/" + "a" * 90, "yes"]], ["folder", "exists"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line.split()[0] for line in lines[1:]) == "/scratch/" + "a" * 90
