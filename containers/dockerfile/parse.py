"""Reads Dockerfiles into instructions, with the line that each starts on. Pure.

The syntax: Docker's documentation, "Dockerfile reference".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from runners.core.errors import UsageError

HEREDOC = re.compile(r"(?<!<)<<-?(['\"]?)(\w+)\1")
FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?\s+")
WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})
SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word in capitals, flags such as (from, build), and what follows.

    In `text` continued lines keep their backslash and newline; `bodies` are its heredocs, each
    without the closing line.
    """

    word: str
    flags: tuple[tuple[str, str], ...]
    text: str
    line: int
    bodies: tuple[str, ...] = ()

    @property
    def flat(self) -> str:
        return re.sub(r"\s*\\\n\s*", " ", self.text).strip()

    def listed(self) -> list[str] | None:
        """The words of the form ["a", "b"]; None for another form."""
        try:
            found = json.loads(self.flat)
        except ValueError:
            return None
        return [str(word) for word in found] if isinstance(found, list) else None

    def command(self) -> list[str]:
        """The words that are run: those listed, or a shell with the text."""
        listed = self.listed()
        return [*SHELL, self.flat] if listed is None else listed


def parse(text: str, name: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile; raise UsageError for what is none."""
    if re.match(r"\s*#\s*escape\s*=\s*`", text, re.IGNORECASE):
        raise UsageError(f"{name} has another escape character than the backslash")
    lines = iter(enumerate(text.splitlines(), start=1))
    found = [_instruction(number, line, lines, name) for number, line in lines if _says(line)]
    if not any(item.word == "FROM" for item in found):
        raise UsageError(
            f"{name} has no line FROM: it is not a Dockerfile",
            remedy="runner build FILE takes a definition as it is",
        )
    return found


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _instruction(
    number: int, line: str, lines: Iterator[tuple[int, str]], name: str
) -> Instruction:
    parts = [line.strip()]
    while parts[-1].endswith("\\"):  # comments and empty lines between are left out
        parts.append(next((line.rstrip() for _, line in lines if _says(line)), ""))
    word, _, rest = "\n".join(parts).partition(" ")
    if not re.fullmatch(r"[A-Za-z]+", word):
        raise UsageError(f"{name}, line {number}: not an instruction", line)
    flags, text = _flags(rest.lstrip())
    if not text.strip():
        raise UsageError(f"{name}, line {number}: nothing follows {word}", line)
    named = HEREDOC.findall(text) if word.upper() in WITH_HEREDOCS else []
    bodies = tuple(_body(delimiter, lines) for _, delimiter in named)
    return Instruction(word.upper(), flags, text, number, bodies)


def _flags(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    found = []
    while match := FLAG.match(text):
        found.append((match[1], match[2] or ""))
        text = re.sub(r"^(\\\n\s*)+", "", text[match.end() :])
    return tuple(found), text


def _body(delimiter: str, lines: Iterator[tuple[int, str]]) -> str:
    inside = takewhile(lambda numbered: numbered[1].strip() != delimiter, lines)
    return "\n".join(line for _, line in inside)


# A word of ENV, LABEL or ARG: quoted parts, escaped characters, and the rest.
PART = r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\]"


def words(text: str) -> list[str]:
    """Split at white space outside of quotes; the quotes stay."""
    return re.findall(f"(?:{PART})+", text)


def shell(word: str) -> str:
    """The word as text for double quotes in a shell, where $NAME stays one."""
    return "".join(map(_part, re.findall(f"{PART}|.", word, re.DOTALL)))


def _part(part: str) -> str:
    if part.startswith("'"):
        return re.sub(r'([$`"\\])', r"\\\1", part[1:-1])
    if part.startswith('"') and len(part) > 1:
        return part[1:-1].replace("`", "\\`")
    if part.startswith("\\"):
        return part if part[1:] in ("$", '"', "\\") else part[1:]
    return f"\\{part}" if part in ("`", '"') else part


def pairs(text: str) -> list[tuple[str, str]]:
    """The settings of ENV or LABEL, values as for `shell`; the old form is NAME VALUE."""
    found = words(text)
    if found and "=" not in found[0]:
        name, _, value = text.partition(" ")
        return [(name, shell(value.strip()))]
    return [(name, shell(value)) for name, _, value in (word.partition("=") for word in found)]
