"""`make test` runs one real test of each mechanism: those that lanes.py names are there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.real.lanes import MECHANISMS

NAMED = (ast.FunctionDef, ast.ClassDef)
REAL = Path(__file__).parents[2] / "real"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_test_of_a_mechanism_is_there(mechanism: str) -> None:
    """Its parameters are compared when `make test` has collected the tests (conftest.py)."""
    file, *names = MECHANISMS[mechanism].partition("[")[0].split("::")
    tree: ast.AST = ast.parse((REAL / file).read_text(encoding="utf-8"))
    for name in names:
        named = [node for node in ast.iter_child_nodes(tree) if isinstance(node, NAMED)]
        known = {node.name: node for node in named}
        assert name in known, f"{file} has no {name}"
        tree = known[name]
