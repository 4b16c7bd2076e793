"""What a script does, as values: commands, assignments and what was not understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .words import Word

BRANCH_OF = ", branch "


@dataclass(frozen=True)
class Command:
    """One simple command, with its words expanded and what holds where it stands.

    `given` are the assignments before it, `exports` the exported variables, `folder` that of the
    last cd, None for the one in which the script began. `conditions` say what decides whether it
    runs. `pipe` are the commands that read its output, `inputs` its redirected files, `document`
    its here-document. `within` is "substitution" for one in $(...), "test" for the condition of an
    `if`. `facts` are variables that the directives fix, equal on all ranks; `source` is its text.
    """

    words: tuple[Word, ...]
    line: int
    given: Mapping[str, Word] = field(default_factory=dict)
    exports: Mapping[str, Word] = field(default_factory=dict)
    folder: Word | None = None
    conditions: tuple[str, ...] = ()
    loops: int = 0
    pipe: tuple[str, ...] = ()
    outputs: tuple[Word, ...] = ()
    inputs: tuple[Word, ...] = ()
    document: Word | None = None
    background: bool = False
    pipefail: bool = False
    within: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]


def exclude(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether conditions are those of two branches, of which one runs."""
    branches = dict(each.split(BRANCH_OF) for each in some if BRANCH_OF in each)
    pairs = (each.split(BRANCH_OF) for each in others if BRANCH_OF in each)
    return any(branches.get(of, number) != number for of, number in pairs)


@dataclass(frozen=True)
class Assignment:
    name: str
    value: Word
    line: int


@dataclass
class Content:
    """What a script does, in order; `octal` are the lines of numbers that may begin with 0.

    `faults` are lines that the grammar does not know, `embedded` those of directives in
    here-documents, and `comments` all comments by line.
    """

    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)
    octal: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)
