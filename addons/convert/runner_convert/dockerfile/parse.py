"""Reads Dockerfiles into instructions, with the line that each starts on. Pure.

The syntax: Docker's documentation, "Dockerfile reference".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from runners.core.errors import UsageError

HEREDOC = re.compile(r"\d*<<(-?)(['\"]?)([^<>\s'\"|&;()]+)\2")
DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*$")
FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?\s+")
CONTINUED = re.compile(r"^(\\\n\s*)+")  # before the first word
WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD", "ONBUILD"})
SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True)
class Heredoc:
    """A here-document; in a `raw` one, whose name is quoted, nothing is replaced."""

    name: str
    raw: bool
    body: str  # without the closing line


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word in capitals, flags such as (from, build), and what follows.

    In `text` continued lines keep their backslash and newline.
    """

    word: str
    flags: tuple[tuple[str, str], ...]
    text: str
    line: int
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def flat(self) -> str:
        return re.sub(r"\s*\\\n\s*", " ", self.text).strip()

    def listed(self) -> list[str] | None:
        """The words of the form ["a", "b"]; None for another form."""
        try:
            value = json.loads(self.flat)
        except ValueError:
            return None
        strings = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return list(value) if strings else None

    def command(self, shell: Sequence[str] = SHELL) -> list[str]:
        """The words that are run: those listed, or a shell with the text."""
        listed = self.listed()
        return [*shell, self.flat] if listed is None else listed


def parse(text: str, name: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile; raise UsageError for what is none."""
    for line in takewhile(DIRECTIVE.match, text.splitlines()):
        if DIRECTIVE.sub(r"\1=\2", line).lower() == "escape=`":
            raise UsageError(
                f"{name} has another escape character than the backslash", id="escape-character"
            )
    text = text.removeprefix("\ufeff")
    lines = iter(enumerate(text.splitlines(), start=1))
    instructions = [
        _instruction(number, line, lines, name) for number, line in lines if _says(line)
    ]
    if not any(item.word == "FROM" for item in instructions):
        raise UsageError(
            f"{name} has no line FROM: it is not a Dockerfile",
            remedy="runner build FILE takes a definition as it is",
            id="not-a-dockerfile",
        )
    return instructions


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _instruction(
    number: int, line: str, lines: Iterator[tuple[int, str]], name: str
) -> Instruction:
    parts = [line.strip()]
    while parts[-1].endswith("\\"):  # comments and empty lines between are left out
        parts.append(next((line.rstrip() for _, line in lines if _says(line)), ""))
    word, rest = (*re.split(r"\s+", "\n".join(parts), maxsplit=1), "")[:2]
    if not re.fullmatch(r"[A-Za-z]+", word):
        raise UsageError(
            f"{name}, line {number}: not an instruction", line, id="instruction-unknown"
        )
    flags, text = _flags(rest.lstrip())
    if not text.strip():
        raise UsageError(
            f"{name}, line {number}: nothing follows {word}", line, id="instruction-empty"
        )
    keyword = word.upper()
    documents = heredocs(text) if keyword in WITH_HEREDOCS else []
    bodies = [Heredoc(key, raw, _body(key, tabs, lines, name)) for key, raw, tabs in documents]
    return Instruction(keyword, flags, text, number, tuple(bodies))


def heredocs(text: str) -> list[tuple[str, bool, bool]]:
    """Name of each here-document that an instruction starts, whether it is raw, and has tabs."""
    matches = map(HEREDOC.fullmatch, words(text))
    return [(match[3], match[2] != "", match[1] != "") for match in matches if match]


def _flags(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    flags = []
    while match := FLAG.match(text := CONTINUED.sub("", text)):
        flags.append((match[1], shell(match[2] or "")))
        text = text[match.end() :]
    return tuple(flags), text


def _body(delimiter: str, tabs: bool, lines: Iterator[tuple[int, str]], name: str) -> str:
    body: list[str] = []
    for _, line in lines:
        stripped = line.lstrip("\t") if tabs else line
        if stripped == delimiter:
            return "\n".join(body)
        body.append(stripped)
    raise UsageError(f"{name}: the here-document {delimiter} does not end", id="here-document-open")


# A word of ENV, LABEL or ARG: quoted parts, escaped characters, and the rest.
PART = r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\]"


def words(text: str) -> list[str]:
    """Split at white space outside of quotes; the quotes stay."""
    return re.findall(f"(?:{PART})+", text)


def shell(word: str) -> str:
    """The word as text for double quotes in a shell; $NAME stays one, and $(...) is no command."""
    text = "".join(map(_part, re.findall(f"{PART}|.", word, re.DOTALL)))
    return re.sub(r"((?:^|[^\\])(?:\\\\)*)\$\(", r"\1\\$(", text)


def plain(text: str) -> str:
    """The text that a shell makes of what stands in double quotes."""
    return re.sub(r'\\([$`"\\])', r"\1", text)


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
    settings = words(text)
    if settings and "=" not in settings[0]:
        name, _, value = text.partition(" ")
        return [(name, shell(value.strip()))]
    return [(name, shell(value)) for name, _, value in (word.partition("=") for word in settings)]
