"""The launch line while it is made: options, and what is said beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from runners.core.diagnosis import Severity
from runners.settings.table import LISTS

from ..line_diagnosis import LineDiagnosis
from .words import ENVIRONMENT, WHO_KNOWS, Piece, Word, literal

MOVED = re.compile(r"(?<!\\)\$(\{?)PWD\b")  # OLDPWD behind a `cd`


# Ids of what is said of a script, and how much it matters
LEFT_OUT, NOT_CARRIED_OVER = "left-out", "not-carried-over"
TO_FILL_IN, TO_LOOK_AT = "to-fill-in", "to-look-at"
SEVERITIES = {
    LEFT_OUT: Severity.NOTE,
    NOT_CARRIED_OVER: Severity.WARNING,
    TO_FILL_IN: Severity.WARNING,
    TO_LOOK_AT: Severity.NOTE,
}


def note(id: str, line: int, text: str) -> LineDiagnosis:
    return LineDiagnosis(id, SEVERITIES[id], " ".join(text.split()), line=line)


@dataclass
class LaunchLine:
    """A launch line, with what is said of it.

    Places that the user has to fill in stand in it as <...>. `folder` is to be changed to before
    the launch. `exports` and `definitions` are what the shell of each rank sets. Not `possible`: no
    line does the same.
    """

    line: int
    options: list[tuple[str, Word | None]] = field(default_factory=list)
    trainer: list[Word] = field(default_factory=list)
    arguments: list[Word] = field(default_factory=list)
    folder: Word | None = None
    exports: list[tuple[str, Word]] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    notes: list[LineDiagnosis] = field(default_factory=list)
    possible: bool = True

    def add(self, name: str, value: Word | str | int | None = None, line: int = 0) -> None:
        """Add an option; one that is no list replaces the one that is there."""
        word = value if isinstance(value, Word) or value is None else literal(str(value), line)
        if name not in LISTS and name != "sweep":
            self.drop(name)
        if (name, word) not in self.options:
            self.options.append((name, word))
        if word is not None:
            self.note(word)

    def drop(self, *names: str) -> None:
        self.options = [option for option in self.options if option[0] not in names]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def has_value(self, name: str, text: str) -> bool:
        return any(
            option == name and value and value.text == text for option, value in self.options
        )

    def text_of(self, name: str) -> str:
        return next((value.text for option, value in self.options if option == name and value), "")

    def note(self, word: Word) -> None:
        """Say which pieces of a word only the run knows."""
        for piece in word.unknown:
            if piece.kind in WHO_KNOWS:
                self.fill_in(piece.line, f"{piece.source}: {WHO_KNOWS[piece.kind]}")

    def argument(self, word: Word) -> None:
        self.arguments.append(word)
        self.note(word)

    def leave_out(self, line: int, text: str) -> None:
        self.notes.append(note(LEFT_OUT, line, text))

    def lose(self, line: int, text: str) -> None:
        self.notes.append(note(NOT_CARRIED_OVER, line, text))

    def fill_in(self, line: int, text: str) -> None:
        self.notes.append(note(TO_FILL_IN, line, text))

    def look_at(self, line: int, text: str) -> None:
        self.notes.append(note(TO_LOOK_AT, line, text))

    def said(self, id: str) -> list[LineDiagnosis]:
        return [told for told in self.notes if told.id == id]

    def all_words(self) -> Iterator[Word]:
        """Yield what stands in the line, and what the shell of each rank sets."""
        yield from (value for _, value in self.options if value)
        yield from (value for _, value in self.exports)
        yield from (*self.trainer, *self.arguments, *filter(None, [self.folder]))

    def words(self) -> Iterator[str]:
        yield from ("runner", "launch")
        for name, value in self.options:
            if value is None:
                yield f"--{name}"
            elif name.endswith("-arg"):
                yield f"--{name}={self._quoted(value)}"
            else:
                yield from (f"--{name}", self._quoted(value))
        yield from self._trainer()

    def _trainer(self) -> Iterator[str]:
        first, *more = self.trainer
        behind = [*more, *self.arguments]
        dashed = bool(more) and more[0].text.startswith("-")
        dashed = dashed or (not first.start and len(first.pieces) == 1)  # several words, perhaps
        text = self._quoted(first)
        yield from ("--", text) if dashed else (text, *["--"][: len(behind)])
        yield from (self._quoted(word, argument=True) for word in behind)

    def _quoted(self, word: Word, argument: bool = False) -> str:
        """Return a word for the line, in which `cd` has changed $PWD before."""
        word = Word(tuple(map(_moved, word.pieces)), word.line) if self.folder else word
        return word.text if argument and word.several else word.quoted()

    @property
    def text(self) -> str:
        """The line, after a `cd` where the script starts its training in another folder."""
        line = " ".join(self.words())
        return f"cd {self.folder.quoted()} && {line}" if self.folder else line


def _moved(piece: Piece) -> Piece:
    """Return a piece as the user's shell has it after `cd`."""
    if isinstance(piece, str) or piece.kind != ENVIRONMENT:
        return piece
    return replace(piece, source=MOVED.sub(r"$\1OLDPWD", piece.source))
