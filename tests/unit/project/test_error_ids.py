"""Each error in `runners/` has an id of its own: what a program and a test compare."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests import diagnoses, documents

# The same fault in more than one module.
SHARED = {"cancel-failed", "image-not-given", "job-not-running", "job-refused", "slurm-silent"}


def test_each_error_has_an_id() -> None:
    without = [
        f"{path}:{error.lineno}"
        for path, error in diagnoses.errors()
        if any(not diagnoses.ID.fullmatch(id) for id in diagnoses.ids_of(error))
    ]
    assert not without, 'give it an id that names the fault: id="image-not-given"'


def test_an_id_is_of_one_fault() -> None:
    modules: dict[str, set[Path]] = defaultdict(set)
    for path, error in diagnoses.errors():
        for id in diagnoses.ids_of(error):
            modules[id].add(path)
    assert {id for id, paths in modules.items() if len(paths) > 1} == SHARED
    assert not modules.keys() & set(diagnoses.ids()), "a plan is refused for something else"


def test_a_kind_of_error_has_an_id() -> None:
    for path in (documents.ROOT / "runners").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and {*map(ast.unparse, node.bases)} & {
                *diagnoses.KINDS
            }:
                assert "id = " in ast.unparse(node), f"{path}: {node.name}"
