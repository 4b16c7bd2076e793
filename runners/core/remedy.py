"""Remedies, as values: those of containers/, which has them too."""

from __future__ import annotations

from containers.remedy import (
    ADVICE,
    COMMAND,
    LAUNCH,
    Remedy,
    Value,
    advice,
    argument_words,
    change,
    command,
    line,
    option_words,
    together,
)

__all__ = [
    "ADVICE",
    "COMMAND",
    "LAUNCH",
    "Remedy",
    "Value",
    "advice",
    "argument_words",
    "change",
    "command",
    "line",
    "option_words",
    "together",
]
