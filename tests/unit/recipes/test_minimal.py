"""The minimal trainers: what makes them minimal, and that each leaves what `runner` reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import recipes

TRAINERS = sorted((Path(recipes.__file__).parent / "minimal").glob("minimal_*.py"))


def test_there_is_one_for_each_way() -> None:
    names = ["minimal_ddp", "minimal_keras", "minimal_tensorflow", "minimal_torch"]
    assert [path.stem for path in TRAINERS] == names


@pytest.mark.parametrize("path", TRAINERS)
def test_it_has_at_most_100_lines_and_imports_nothing_of_ours(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 100
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert not imported & {"recipes", "runners", "containers", ""}


@pytest.mark.parametrize("path", TRAINERS)
def test_it_marks_what_is_distributed_and_writes_its_result(path: Path) -> None:
    text = path.read_text()
    assert text.count("# Horovod:") + text.count("# DDP:") >= 4
    assert all(word in text for word in ("OUTPUT_DIR", "result.json", "metrics.jsonl"))
