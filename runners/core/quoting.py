"""Tokens of a command line, quoted for bash so that it expands only the intended variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from .model import InRun, Staged

NAME = re.compile(r"(\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*(?::\+:\$[A-Za-z_]\w*)?\})")
IN_PATH = re.compile(r":\$\{?([A-Za-z_]\w*)\}?(?=:|$)")
SPECIAL = re.compile(r'([\\"$`])')  # within double quotes


class Expanded(str):
    """A token in which the job's shell expands `$NAME` and `${NAME}`; all else stands for itself.

    For what only the job knows, such as the scheduler's file with the names of its nodes.
    """

    __slots__ = ()


def search_path(folders: str) -> Expanded:
    """Return folders between colons, without those of variables that are empty.

    An empty one is the current folder, from which the loader would take libraries (ld.so(8)).
    """
    return Expanded(IN_PATH.sub(r"${\1:+:$\1}", folders))


def path(value: str | InRun | Staged) -> str:
    """Return a path of the plan as a token; the job's script knows the folders of the last two."""
    if isinstance(value, InRun):
        return Expanded(f"$run/{value.name}")
    return Expanded(f"$stage/{value.name}") if isinstance(value, Staged) else value


def quote(token: str) -> str:
    """Return a token as bash reads it."""
    if not isinstance(token, Expanded):
        return shlex.quote(token)
    escaped = (p if NAME.fullmatch(p) else SPECIAL.sub(r"\\\1", p) for p in NAME.split(token))
    return f'"{"".join(escaped)}"'


def default(value: str, *names: str) -> str:
    """Return, for an `export`, what the first of the variables has that has anything, else value.

    Quoted as a word of its own where it is odd: bash 5.2 takes a single quote within "${A:-...}"
    for the beginning of a string, and `export` splits nothing.
    """
    expanded = isinstance(value, Expanded)
    plain = expanded or re.fullmatch(r"[\w@%+=:,./ -]*", value, re.ASCII)
    text = quote(value)[1:-1] if expanded else value if plain else shlex.quote(value)
    for name in reversed(names):
        text = f"${{{name}:-{text}}}"
    return f'"{text}"' if plain else text


def merged(*parts: str) -> str:
    """Return one token of several; what the shell expands in a part it expands in the whole."""
    whole = "".join(parts)
    return Expanded(whole) if any(isinstance(part, Expanded) for part in parts) else whole


def join(tokens: Iterable[str]) -> str:
    return " ".join(quote(token) for token in tokens)
