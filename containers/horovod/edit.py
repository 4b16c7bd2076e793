"""Edits of released source text that fail on any other text; also used for installed packages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class EditError(Exception):
    """The source tree is not the one an edit was written for."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in `file`, by `new`; `why` is for the reader."""

    file: str
    old: str
    new: str
    why: str
    count: int = 1

    def edited(self, text: str) -> str:
        """Return `text` with the edit made."""
        check_count(self.file, text, self.old, self.count)
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Repeat:
    """Repeat the text from `start` up to `end`, `count` times in `file`, with the names replaced.

    The copy follows the original: a case of a switch, a function, a registration.
    """

    file: str
    start: str
    end: str
    names: tuple[tuple[str, str], ...]
    why: str
    count: int = 1

    def edited(self, text: str) -> str:
        """Return `text` with the copies."""
        check_count(self.file, text, self.start, self.count)
        before, *rest = text.split(self.start)
        parts = [before]
        for part in rest:
            body, end, after = part.partition(self.end)
            if not end:
                raise EditError(f"{self.file}: expected after {self.start!r}: {self.end!r}")
            original = self.start + body
            parts += [original, self._renamed(original), end, after]
        return "".join(parts)

    def _renamed(self, text: str) -> str:
        for old, new in self.names:
            if old not in text:
                raise EditError(f"{self.file}: expected {old!r} in {text!r}")
            text = text.replace(old, new)
        return text


@dataclass(frozen=True)
class NewFile:
    """Write `text` as `file`, which must not exist."""

    file: str
    text: str
    why: str


def check_count(file: str, text: str, old: str, count: int) -> None:
    """Raise EditError when `old` does not occur `count` times."""
    occurrences = text.count(old)
    if occurrences != count:
        raise EditError(
            f"{file}: expected {count} time(s), found {occurrences}: {old!r}\n"
            "Edit a freshly unpacked horovod-0.28.1; the build edits the tree it runs in."
        )


def read_source(tree: Path, file: str) -> str:
    """Return the text of `file` in `tree`; EditError when it does not exist."""
    try:
        return (tree / file).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EditError(f"{file}: no such file in {tree}; is it horovod-0.28.1?") from error


def apply(tree: Path, edits: Sequence[Edit | Repeat | NewFile]) -> list[str]:
    """Make all edits in `tree` or none; return the edited files. Raises EditError."""
    texts: dict[str, str] = {}
    for edit in edits:
        if isinstance(edit, NewFile):
            if (tree / edit.file).exists():
                raise EditError(f"{edit.file}: exists already; edit a freshly unpacked tree")
            texts[edit.file] = edit.text
        else:
            before = texts[edit.file] if edit.file in texts else read_source(tree, edit.file)
            texts[edit.file] = edit.edited(before)
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8")
    return list(texts)
