"""Edits of released text, which are refused for any other text; also used for installed packages.

An edit is a row: a short anchor that stands in one file exactly once, what comes before its line,
after its line or in its place, and the reason. What is longer is a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class EditError(Exception):
    """The source tree is not the one that an edit was written for."""


@dataclass(frozen=True)
class Row:
    """Put lines before or after the anchor's line, indented like it, or text in its place."""

    file: str
    anchor: str
    why: str
    before: str = ""
    after: str = ""
    instead: str | None = None

    def edited(self, text: str) -> str:
        """Return the text with the edit made. Raises EditError."""
        count = text.count(self.anchor)
        if count != 1:
            fault = f"stands there {count} times" if count else "is missing"
            raise EditError(f"the anchor {self.anchor!r} {fault}")
        at = text.index(self.anchor)
        start = text.rindex("\n", 0, at) + 1 if "\n" in text[:at] else 0
        stop = at + len(self.anchor)
        end = text.find("\n", stop)
        end = len(text) if end < 0 else end
        line = text[start:at]
        indentation = line[: len(line) - len(line.lstrip())]
        here = self.anchor if self.instead is None else self.instead
        before = "".join(f"{added}\n" for added in _indented(self.before, indentation))
        after = "".join(f"\n{added}" for added in _indented(self.after, indentation))
        return text[:start] + before + line + here + text[stop:end] + after + text[end:]


@dataclass(frozen=True)
class NewFile:
    """Copy `source` as `file`, which must not exist."""

    file: str
    source: Path
    why: str


def _indented(lines: str, indentation: str) -> list[str]:
    return [indentation + line if line else line for line in lines.splitlines()]


def _read(tree: Path, file: str) -> str:
    try:
        return (tree / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise EditError(f"no such file in {tree}") from None


def apply(tree: Path, rows: Sequence[Row], new_files: Sequence[NewFile] = ()) -> list[str]:
    """Make all edits in `tree` or none; return the edited files. Raises EditError."""
    texts: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        try:
            before = texts[row.file] if row.file in texts else _read(tree, row.file)
            texts[row.file] = row.edited(before)
        except EditError as error:
            raise EditError(f"{row.file}, row {number}: {error}") from None
    for new_file in new_files:
        if (tree / new_file.file).exists():
            raise EditError(f"{new_file.file}: exists already")
        texts[new_file.file] = new_file.source.read_text(encoding="utf-8")
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8")
    return list(texts)
