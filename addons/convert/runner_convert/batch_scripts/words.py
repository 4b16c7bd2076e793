"""Words of a script: text that is known, and pieces that only the run or the user's shell knows."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

# Kinds of unknown pieces. ENVIRONMENT: the user's shell has the value when the job is launched, as
# it had when the script was submitted. RUN: the scheduler sets it. ADDRESS: the job's nodes.
# COMMAND: what a command prints. LOOKUP: the item of a list by the array task's number.
# BATCH: the shell of the script has another value than a rank. ARGUMENT: $1. BRANCH: set in a loop
# or a branch. FILE: perhaps set by a file that is sourced.
ENVIRONMENT, RUN, ADDRESS, COMMAND = "environment", "run", "address", "command"
LOOKUP, ARGUMENT, BRANCH, FILE = "lookup", "argument", "branch", "file"
BATCH = "batch"
WHO_KNOWS = {
    RUN: "only the job knows it",
    BATCH: "the script's shell has a value of its own",
    ADDRESS: "it names nodes of the job",
    COMMAND: "a command of the job prints it",
    LOOKUP: "it depends on the number of the array's task",
    ARGUMENT: "it is an argument of the script",
    BRANCH: "a loop or a condition decides it",
    FILE: "a file that the script sources may set it",
}
# Where ranks meet, as the shell of a rank has it; one rank alone has neither variable.
HOST, PORT = "${MASTER_ADDR:-$(hostname)}", "${MASTER_PORT:-29500}"
QUOTED = '$"\\`'  # signs that a backslash escapes in double quotes
MAY_BE_NONE = re.compile(r":?\+|-}$")  # of ${NAME:+other} and ${NAME:-}
ONE_WORD = ("USER", "HOME", "LOGNAME", "SCRATCH", "PSCRATCH", "WORK")  # never with a space
# Characters that the shell takes as they are, also in a word without quotes.
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_-+=:,./^")


@dataclass(frozen=True)
class Unknown:
    """A piece of a word, as it stands in the script.

    `values` are the items of a LOOKUP, `words` those of each value that a variable may have: all
    begin with options, or none. `digits`: it is made of the
    last digits of the job's number; `padded`: it is these digits themselves, perhaps with 0 first.
    `quoted`: the shell does not split its value into words.
    """

    source: str
    kind: str
    line: int
    values: tuple[str, ...] = ()
    digits: bool = False
    padded: bool = False
    words: tuple[tuple[str, ...], ...] = ()
    quoted: bool = field(default=False, compare=False)


Piece = Union[str, Unknown]


@dataclass(frozen=True)
class Word:
    pieces: tuple[Piece, ...]
    line: int

    @property
    def text(self) -> str:
        """The word as a person reads it, unknown pieces as they stand in the script."""
        return "".join(piece if isinstance(piece, str) else piece.source for piece in self.pieces)

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Unknown))

    @property
    def known(self) -> str | None:
        """The text, None where a piece is unknown."""
        return None if self.unknown else self.text

    @property
    def number(self) -> int | None:
        text = self.known
        return int(text) if text and text.isdecimal() else None

    @property
    def start(self) -> str:
        return self.pieces[0] if self.pieces and isinstance(self.pieces[0], str) else ""

    @property
    def portable(self) -> bool:
        """Whether the user's shell knows all of it."""
        return all(piece.kind == ENVIRONMENT for piece in self.unknown)

    def has(self, *kinds: str) -> bool:
        return any(piece.kind in kinds for piece in self.unknown)

    def split(self, separator: str, most: int = -1) -> list[Word]:
        parts: list[list[Piece]] = [[]]
        for piece in self.pieces:
            if isinstance(piece, Unknown):
                parts[-1].append(piece)
                continue
            left = -1 if most < 0 else most - len(parts) + 1
            texts = piece.split(separator, left) if left else [piece]
            parts[-1].append(texts[0])
            parts += [[text] for text in texts[1:]]
        return [compose(part, self.line) for part in parts]

    def quoted(self) -> str:
        """Return the word for a command line; variables of the user's shell stay variables."""
        if not self.unknown:
            return shlex.quote(self.text)
        if not self.portable:
            return shlex.quote(f"<{self.text}>")
        return self.text if all(map(_is_bare, self.pieces)) else f'"{self.escaped()}"'

    @property
    def splits(self) -> bool:
        """Whether what a command prints may be several words of it."""
        return any(piece.kind == COMMAND and not piece.quoted for piece in self.unknown)

    @property
    def several(self) -> bool:
        """Whether the user's shell makes no word of it, or several ones: ${ARGS:-}, ${N:+-n $N}."""
        piece = self.pieces[0] if len(self.pieces) == 1 else ""
        if isinstance(piece, str) or piece.quoted or piece.kind != ENVIRONMENT:
            return False
        return bool(MAY_BE_NONE.search(piece.source)) or " " in piece.source

    def escaped(self, signs: str = QUOTED) -> str:
        """Return the word as it stands within double quotes, with a backslash before `signs`."""
        return "".join(
            escaped(piece, signs) if isinstance(piece, str) else piece.source
            for piece in self.pieces
        )


def _is_bare(piece: Piece) -> bool:
    """Whether a piece is the same without quotes."""
    if isinstance(piece, str):
        return set(piece) <= SAFE
    name = piece.source[1:]
    return name.isidentifier() and (not piece.quoted or name in ONE_WORD)


def escaped(text: str, signs: str = QUOTED) -> str:
    return "".join(f"\\{sign}" if sign in signs else sign for sign in text)


def compose(pieces: Iterable[Piece], line: int) -> Word:
    """Return a word of pieces: neighbouring texts are one, names before a letter are in braces."""
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if isinstance(piece, str) and isinstance(last, str):
            whole[-1] = last + piece
        elif isinstance(piece, str) and isinstance(last, Unknown) and last.source[:1] == "$":
            name = last.source[1:]
            if piece and name.isidentifier() and f"{name}{piece[0]}".isidentifier():
                whole[-1] = replace(last, source=f"${{{name}}}")
            whole += [piece] if piece else []
        elif piece:
            whole.append(piece)
    return Word(tuple(whole), line)


def literal(text: str, line: int = 0) -> Word:
    return Word((text,) if text else (), line)


def unknown(source: str, kind: str, line: int) -> Word:
    return Word((Unknown(source, kind, line),), line)


def known_on_rank(piece: Unknown) -> bool:
    """Whether the shell of a rank has a piece's value too."""
    name = piece.source[1:].removeprefix("{").removesuffix("}")
    name = re.sub(r"^(\w+):?-[^$`]*$", r"\1", name)  # ${NAME:-other}
    set_by_script = name.isidentifier() or piece.source in (HOST, PORT) or name.startswith("((")
    return piece.kind == LOOKUP or (piece.kind == RUN and set_by_script)


def folder_before(path: Word, end: str) -> Word:
    """Return what stands before the last of `end` in a path; a name alone gets `./`."""
    folder = join(path.split(end)[:-1], end, path.line)
    alone = "/" not in folder.text and folder.start
    return compose(("./", *folder.pieces), path.line) if alone else folder


def join(words: Iterable[Word], separator: str, line: int) -> Word:
    pieces: list[Piece] = []
    for word in words:
        pieces += [separator, *word.pieces] if pieces else word.pieces
    return compose(pieces, line)


def with_placeholders(word: Word) -> tuple[str, dict[str, Word]]:
    """Return a text with variables for its unknown pieces, and what these stand for."""
    names, parts = dict[str, Word](), list[str]()
    for piece in word.pieces:
        if isinstance(piece, Unknown):
            names[f"PIECE_{len(names)}"] = compose([piece], word.line)
            parts.append(f"${{PIECE_{len(names) - 1}}}")
        else:
            parts.append(piece)
    return "".join(parts), names


def restored(text: str, names: Mapping[str, object]) -> list[Piece]:
    """Return a text with what its ${PIECE_0} and so on stand for, also within quotes."""
    values: list[object] = []
    for n, part in enumerate(re.split(r"(\$\{PIECE_\d+\})", text)):
        values.append(names.get(part[2:-1], literal(part)) if n % 2 else literal(part))
    return [piece for value in values if isinstance(value, Word) for piece in value.pieces]


def unsplit(word: Word) -> list[Piece]:
    """Return the pieces of a word that the shell does not split."""
    return [p if isinstance(p, str) else replace(p, quoted=True) for p in word.pieces]


def split_at_blanks(words: Iterable[Word]) -> list[list[Piece]]:
    """Return the pieces of each word into which the shell splits words at their blanks."""
    whole: list[list[Piece]] = []
    for word in words:
        whole.append([])
        for piece in word.pieces:
            if isinstance(piece, Unknown):
                whole[-1].append(replace(piece, quoted=False))
                continue
            parts = re.split("[ \t\n]", piece)
            whole[-1] += [part for part in parts[:1] if part]
            whole += [[part] if part else [] for part in parts[1:]]
    return [pieces for pieces in whole if pieces]


def changed_folder(folder: Word | None, target: Word) -> Word:
    """Return the folder to which `cd` changes, from the one before it."""
    up = folder is not None and folder.unknown and target.text.rstrip("/") == ".."
    parts = folder.split("/") if folder and up else []
    if parts[1:] and parts[-1].known not in (None, "", "..", "."):
        root = "" if parts[0].pieces else "/"
        return compose((root, *join(parts[:-1], "/", target.line).pieces), target.line)
    if folder is not None and not target.text.startswith(("/", "$", "~")):
        target = join((folder, target), "/", target.line)
    return literal(posixpath.normpath(target.text), target.line) if target.known else target


def is_flag(word: Word) -> bool:
    return word.start.startswith(("-", "+"))


def unescaped(text: str, only: str = "") -> str:
    """Return a text without backslashes: before any sign, or before those in `only`."""
    signs, plain = iter(text), ""
    for sign in signs:
        if sign == "\\":
            sign = next(signs, "\\")
            plain += "\\" if only and sign not in f"{only}\n" else ""
            sign = "" if sign == "\n" else sign
        plain += sign
    return plain
