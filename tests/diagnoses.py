"""The ids of diagnoses, read from the calls that make them: for the reference, and for a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .documents import ROOT

# A call of one of these makes a diagnosis of a plan; its first argument is the id.
MAKERS = ("log.refuse", "log.warn", "refusal", "warning")
ROOMS = ("planning", "schedulers", "runtimes", "launching", "sessions")
# Kinds of errors that stand for many faults; the others (`MissingProgram`) are one fault each.
KINDS = ("RunnerError", "UsageError", "Refused", "SystemFault", "NotVerified", "NotFound")
# What users start: not the trainers, which know nothing of our errors.
PRODUCT = ("runners/**/*.py", "containers/**/*.py", "addons/*/runner_*/**/*.py")
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


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


def errors() -> Iterator[tuple[Path, ast.Call]]:
    """Yield each call that makes an error of a kind; click's own have no ids."""
    for path, node in _nodes():
        if not isinstance(node, ast.Call) or _name(node) not in KINDS:
            continue
        if not ast.unparse(node.func).startswith("click."):
            yield path, node


def kinds() -> Iterator[tuple[Path, ast.ClassDef]]:
    """Yield each kind of error that is one fault, such as `MissingProgram`."""
    for path, node in _nodes():
        if not isinstance(node, ast.ClassDef) or node.name in KINDS:
            continue
        if {*map(ast.unparse, node.bases)} & {*KINDS}:
            yield path, node


def ids_of(call: ast.Call) -> set[str]:
    """Return the ids that stand in a call's `id`: two where a condition chooses; "" for none.

    Where one is passed on, as of another diagnosis, none stands there.
    """
    given = next((word.value for word in call.keywords if word.arg == "id"), ast.Constant(""))
    parts = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
    return {str(part.value) for part in parts if isinstance(part, ast.Constant)}


def id_of_kind(kind: ast.ClassDef) -> str:
    """Return the id of a kind of error, "" where it has none of its own."""
    values = {
        ast.unparse(node.targets[0]): node.value
        for node in kind.body
        if isinstance(node, ast.Assign)
    }
    value = values.get("id")
    return str(value.value) if isinstance(value, ast.Constant) else ""


def error_ids() -> list[str]:
    """Return the ids of all errors, also those that a function is called with that makes one."""
    calls = [node for _, node in _nodes() if isinstance(node, ast.Call)]
    makers = [call for call in calls if _name(call) in ("_refuse", "_refused", "kind")]
    made = {id for call in (*makers, *(call for _, call in errors())) for id in ids_of(call)}
    return sorted((made | {id_of_kind(kind) for _, kind in kinds()}) - {""})


def _name(call: ast.Call) -> str:
    """Return the name of what is called, without its module."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


@cache
def _nodes() -> list[tuple[Path, ast.AST]]:
    """Return all that stands in the product's modules."""
    files = sorted(path for pattern in PRODUCT for path in ROOT.glob(pattern))
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in files)
    return [(path, node) for path, tree in trees for node in ast.walk(tree)]
