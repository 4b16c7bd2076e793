"""Evaluates the test of an `if`, as far as the script alone tells: `[ A = B ]`, `[ -z A ]`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from . import syntax
from .commands import OF_JOB
from .expansion import Expander
from .syntax import Node

# Operators between two words, and whether they hold where the words are equal.
EQUALITY = {"=": True, "==": True, "=~": True, "-eq": True, "!=": False, "-ne": False}


def evaluate(condition: Sequence[Node], expander: Expander) -> bool | None:
    """Return whether a condition holds, None where the script alone does not tell it."""
    commands = [node for node in condition if node.is_named]
    if len(commands) != 1 or commands[0].type != "test_command":
        return None
    brackets, expressions = commands[0].children[0].type, commands[0].named_children
    if len(expressions) != 1:
        return None
    if expressions[0].type == "unary_expression":
        return _evaluate_unary(expressions[0], expander)
    if expressions[0].type == "binary_expression":
        return _evaluate_binary(expressions[0], expander, in_double=brackets == "[[")
    return None


def _evaluate_unary(node: Node, expander: Expander) -> bool | None:
    """Evaluate `-z A` and `-n A`: whether a word is empty, or is not."""
    operator, word = syntax.source(node.children[0]), expander.word(node.children[-1])
    if operator not in ("-z", "-n"):
        return None
    if word.text.strip("${}") in OF_JOB:
        return operator == "-n"
    return None if word.known is None else (word.known == "") is (operator == "-z")


def _evaluate_binary(node: Node, expander: Expander, in_double: bool) -> bool | None:
    """Evaluate `A = B` and the like. In [[ ]], `*` stands for any text where it is not quoted."""
    operator, operands = syntax.source(node.children[1]), node.children[2:]
    left = expander.word(node.children[0]).known
    right = [expander.word(operand).known for operand in operands]  # A == "b"*: two nodes
    if operator not in EQUALITY or left is None or None in right:
        return None
    pattern = "".join(text or "" for text in right)
    if operator == "=~" and not pattern.isidentifier():
        return None  # a regular expression
    quoted = [
        part for operand in operands for part in syntax.below(operand, "string", "raw_string")
    ]
    stars = in_double and not any("*" in syntax.source(part) for part in quoted)
    if set(left + pattern) & set("?[" if stars else "*?["):
        return None
    equal = fnmatchcase(left, f"*{pattern}*" if operator == "=~" else pattern)
    return equal is EQUALITY[operator]
