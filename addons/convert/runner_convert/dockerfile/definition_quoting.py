"""Texts of a definition: words for the shell of %post, and arguments of the build as {{ NAME }}."""

from __future__ import annotations

import re
import shlex

PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
# What is no text to Apptainer, but a section, a stage or a build argument.
NO_TEXT = re.compile(r"^[ \t]*%|^bootstrap:|\{\{\s*\w+\s*\}\}", re.MULTILINE | re.IGNORECASE)
OPEN = re.compile(r"\{\{(?=\s*\w+\s*\}\})")
HIDDEN = "{\0{"  # stands for the braces of what is no argument, until it is quoted
OF_BASE = "\0$"  # stands for the $ of a variable that only the base may have set


def placeholder(name: str) -> str:
    return "{{ " + name + " }}"


def quoted(text: str) -> str:
    """One word of a shell that Apptainer takes for text too."""
    return with_arguments(OPEN.sub(HIDDEN, text))


def with_arguments(text: str) -> str:
    """One word of a shell; {{ NAME }} in it stays an argument of the build.

    In single quotes two more are nothing to the shell, and no line begins with % then.
    """
    if OF_BASE in text:
        word = re.sub(r'([$`"\\])', r"\\\1", text).replace("\0\\$", "$")
        return f'"{word}"'.replace(HIDDEN, '{""{')
    word = shlex.quote(text)
    word = re.sub(r"^([ \t]*)(%|bootstrap:)", r"\1''\2", word, flags=re.MULTILINE | re.IGNORECASE)
    return word.replace(HIDDEN, "{''{")


def joined(words: list[str]) -> str:
    return " ".join(map(quoted, words))
