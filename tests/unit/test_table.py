"""Tables: as wide as the terminal at most, whole where there is none."""

from __future__ import annotations

import sys

import pytest

from runners.cli import printer, table

HEADERS = ["run", "why", "state", "accuracy", "loss"]
ROWS = [
    ["torch_mnist-1", "", "completed", "0.97", "0.1"],
    ["torch_mnist-2", "", "failed", "0.9", "0.2"],
]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_without_a_terminal_all_of_it_is_in_one_line_each() -> None:
    wide = [["x" * 300, "a b " * 90]]
    shown = table.fitted(wide, ["one", "two"])
    assert len(lines(shown.text)) == 2
    assert shown.left_out == []


def test_empty_columns_go_first_then_those_that_can_be_spared() -> None:
    shown = table.fitted(ROWS, HEADERS, ("accuracy", "loss"), room=42)
    assert lines(shown.text) == [
        "run            state      accuracy  loss",
        "torch_mnist-1  completed  0.97      0.1",
        "torch_mnist-2  failed     0.9       0.2",
    ]
    assert shown.left_out == []
    less = table.fitted(ROWS, HEADERS, ("accuracy", "loss"), room=25)
    assert lines(less.text)[0] == "run            state"
    assert less.left_out == ["accuracy", "loss"]


def test_long_texts_are_folded_between_words() -> None:
    rows = [["nodes", "8 nodes of 4 GPUs each, since --gpus 32 was asked for"]]
    shown = table.fitted(rows, ["choice", "because"], room=30)
    assert max(map(len, lines(shown.text))) <= 30
    assert "each, since --gpus 32" in shown.text
    long = table.fitted([["/scratch/" + "a" * 50, "yes"]], ["folder", "there"], room=30)
    assert max(map(len, lines(long.text))) <= 30, "a word that is too long is cut"


def test_the_terminal_is_taken_to_have_80_columns_at_least(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.width() is None
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert table.width() == 80
    printer.table([["a" * 50, "b" * 40]], ["one", "two"], ("two",))
    out = capsys.readouterr()
    assert "b" not in out.out
    assert "no room for: two" in out.err
