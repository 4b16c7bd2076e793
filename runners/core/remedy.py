"""The forms of a remedy: options, a folder to be in, or else advice and commands of their own."""

from __future__ import annotations

LEAVE_OUT = "leave out "  # before an option that a remedy takes away
GO_TO = "cd "  # before a folder in which the same command works


def are_options(remedy: str) -> bool:
    """Whether a remedy changes the command that was typed, and is no command of its own."""
    return remedy.startswith(("-", LEAVE_OUT))


def is_part(remedy: str) -> bool:
    """Whether a remedy goes together with others: options, or a folder to be in."""
    return are_options(remedy) or remedy.startswith(GO_TO)
