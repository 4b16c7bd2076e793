"""The ids of diagnoses, read from the calls that make them: for the reference, and for a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .documents import ROOT

# A call of one of these makes a diagnosis of a plan; its first argument is the id.
MAKERS = ("log.refuse", "log.warn", "refusal", "warning")
ROOMS = ("planning", "schedulers", "runtimes", "launching", "sessions")


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Yield each call in these rooms that makes a diagnosis."""
    for room in ROOMS:
        for path in sorted((ROOT / "runners" / room).glob("**/*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in MAKERS:
                    yield path, node


def id_of(call: ast.Call) -> str:
    """Return the id that stands in a call, "" where none does."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def ids() -> list[str]:
    """Return the ids of all that a plan is refused for, or warns of."""
    return sorted({id_of(call) for _, call in calls()} - {""})
