"""Simple commands of a script, and what is known of variables where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Union

from . import words as kinds
from .programs import NAMES
from .words import Unknown, Word, join, literal, unknown

Value = Union[Word, tuple[Word, ...]]
TASK = "SLURM_ARRAY_TASK_ID"
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID")
OF_JOB = (*JOB_NUMBERS, "PBS_NODEFILE", "SLURM_JOB_NODELIST")  # never empty in a job
NODE_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "HOSTNAME")
OF_RUN, OWN = tuple(NAMES["of_run"]), NAMES["own"]
# The script's shell runs on the first node, and is no rank.
OF_FIRST = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
OF_RANKS = (*OF_FIRST, "SLURM_NTASKS")  # never empty in a rank
# The folder in which the script was submitted; there the launch line is typed.
SUBMITTED = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "COBALT_CWD")
# Variables that every login has, whatever a sourced file sets.
OF_LOGIN = ("USER", "HOME", "LOGNAME", "PWD", "SCRATCH", "PSCRATCH", "WORK", "PATH", "SHELL")
ALL_ARGUMENTS = ("$@", "$*", "${@}", "${*}")
BRANCH_OF = ", branch "
MOST_FOLDERS = 3
MOST_WORDS = 200  # of all values that a variable may have


@dataclass(frozen=True)
class Surroundings:
    """What holds around a command, by the compound commands that it is in.

    `conditions` say what decides whether it runs, `loops` is the line of the outermost loop. `pipe`
    are the commands that read its output, `inputs` and `outputs` its redirected files, `errors`
    those of the latter for its errors alone, `document` its here-document, `behind` the words
    behind a redirection. `within` is "substitution" in $(...), "test" in the condition of an `if`,
    and "until" in that of a loop. `facts` are variables that the directives fix, equal on all
    ranks. `joined`: it is in a && b or a | b. `chosen` is the order of the first command of an `if`
    whose condition holds as the script stands. `rounds` are those of unrolled loops, `depth` is
    that of functions.
    """

    conditions: tuple[str, ...] = ()
    loops: int = 0
    pipe: tuple[str, ...] = ()
    outputs: tuple[Word, ...] = ()
    errors: tuple[Word, ...] = ()
    inputs: tuple[Word, ...] = ()
    document: Word | None = None
    behind: tuple[Word, ...] = ()
    background: bool = False
    within: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False
    chosen: int | None = None
    rounds: int = 1
    depth: int = 0


@dataclass(frozen=True)
class Command(Surroundings):
    """One simple command, with its words expanded and what holds where it stands.

    `given` are the assignments before it, `exports` the exported variables, `folder` that of the
    last cd, None for the one in which the script began. `functions` are the texts of those that
    `export -f` hands on; `source` is its own. `order` counts the commands as they run, which is not
    the order of the lines where functions are called.
    """

    words: tuple[Word, ...] = ()
    line: int = 0
    given: Mapping[str, Word] = field(default_factory=dict)
    exports: Mapping[str, Word] = field(default_factory=dict)
    folder: Word | None = None
    pipefail: bool = False
    functions: tuple[Word, ...] = ()
    source: str = ""
    order: int = 0

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
    branches = dict(condition.split(BRANCH_OF) for condition in some if BRANCH_OF in condition)
    pairs = (condition.split(BRANCH_OF) for condition in others if BRANCH_OF in condition)
    return any(branches.get(of, number) != number for of, number in pairs)


@dataclass(frozen=True)
class Assignment:
    name: str
    value: Word
    line: int


@dataclass
class Content:
    """What a script does, in order; `octal` are the lines of numbers that may begin with 0.

    `faults` are lines that the grammar does not know, `embedded` the first directives of
    here-documents, and `comments` all comments by line. `noted` is that of Scope. `ended` is the
    first line that never runs, behind an `exit`, 0 for none; `refusals` end a script that is not
    filled in.
    """

    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)
    octal: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)
    noted: list[tuple[int, str]] = field(default_factory=list)
    ended: int = 0
    refusals: list[Command] = field(default_factory=list)


@dataclass
class Scope:
    """What is known of the shell at a place of the script: its variables, and its folder.

    `given` has what the directives fix, such as SLURM_NNODES. `sourced`: a file was read that may
    set any variable. `per_rank`: the text runs once on each rank. `arguments` are None for
    those of the script, which only the submission knows; `shifted` of them are gone. `noted`
    are lines and names of variables that are a rank's own, and were taken of the script's
    shell. `last` is the folder before the last cd, `pushed` are those of pushd; `functions` are
    exported; `ended`: an `exit` stands before.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: list[Word] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    sourced: bool = False
    per_rank: bool = False
    folder: Word | None = None
    last: Word | None = None
    pushed: tuple[Word | None, ...] = ()
    pipefail: bool = False
    functions: tuple[Word, ...] = ()
    ended: bool = False
    noted: list[tuple[int, str]] = field(default_factory=list)
    shifted: int = 0

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def change(self, folder: Word | None) -> None:
        """Change to a folder, as cd does."""
        self.last, self.folder = self.folder, folder
        self.variables.pop("PWD", None)
        if folder and folder.text[:1] not in ("/", "$"):
            pwd = unknown("$PWD", kinds.ENVIRONMENT, folder.line)
            folder = join((pwd, folder), "/", folder.line)
        self.variables |= {"PWD": folder} if folder else {}

    def word(self, name: str, line: int) -> Word:
        """Return a variable's value, of a list its first item, as the shell does."""
        value = self.value(name, line)
        return value if isinstance(value, Word) else next(iter(value), literal("", line))

    def argument(self, number: int, line: int) -> Word:
        """Return an argument by its number, of words of which some may be several or none."""
        given = [unknown("$@", kinds.ARGUMENT, line)] if self.arguments is None else self.arguments
        for place, word in enumerate(given, 1):
            if word.text in ALL_ARGUMENTS or not number:
                number += self.shifted + 1 - place if number else 0
                return unknown(_parameter(number), kinds.ARGUMENT, line)
            if place == number:
                return word
            if word.splits:
                return unknown(_parameter(number), kinds.COMMAND, line)
        several = any(not piece.quoted for word in given for piece in word.unknown)
        return unknown(_parameter(number), kinds.RUN, line) if several else literal("", line)

    def shift(self, number: int) -> None:
        """Take the first arguments away, as far as they are known."""
        while self.arguments and self.arguments[0].text not in ALL_ARGUMENTS and number:
            self.arguments, number = self.arguments[1:], number - 1
        self.shifted += number if self.arguments != [] else 0

    def value(self, name: str, line: int) -> Value:
        """Return a variable's value, or what kind of unknown it is."""
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal():
            return self.argument(int(name), line)
        if name in self.given:
            return literal(self.given[name], line)
        if name in SUBMITTED:
            return unknown("$PWD", kinds.ENVIRONMENT, line)
        if name == "PWD" and self.per_rank:
            return unknown("$PWD", kinds.RUN, line)
        if name in NODE_LISTS:
            return unknown(f"${name}", kinds.ADDRESS, line)
        if name in OF_FIRST and not self.per_rank:
            self.noted.append((line, name))
            return literal("0", line)
        if (name in OWN or not name.isidentifier()) and not self.per_rank:
            return unknown(f"${name}", kinds.BATCH, line)
        if name.startswith(OF_RUN) or name in (*OWN, "TMPDIR") or not name.isidentifier():
            return unknown(f"${name}", kinds.RUN, line)
        by_file = self.sourced and name not in OF_LOGIN
        return unknown(f"${name}", kinds.FILE if by_file else kinds.ENVIRONMENT, line)


def undecided(value: Value, name: str, kind: str, before: Iterable[Value] = ()) -> Word:
    """Return a variable whose value differs from those of before, of which the rules know."""
    items = [value] if isinstance(value, Word) else [*value]
    word = items[0] if len(items) == 1 else literal("", items[0].line if items else 0)
    digits, padded = (any(getattr(p, n) for p in word.unknown) for n in ("digits", "padded"))
    words_ = _all([*before, value], name)
    return Word((Unknown(f"${name}", kind, word.line, (), digits, padded, words_),), word.line)


def one_of_several(before: Value | None, values: Sequence[Value], name: str) -> Value:
    """Return a variable with one of several values; what they all begin with stays known."""
    several = isinstance(before, tuple)
    known = [] if before is None else _parts(before)
    place = next((n for n, word in enumerate(known) if f"${name}" in word.text), len(known))
    rests = [_behind(known[:place], _parts(v)) for v in values if isinstance(v, tuple) is several]
    if not place or not all(rests) or len(rests) < len(values):
        others = [*([] if before is None else [before]), *values[:-1]]
        return undecided(values[-1], name, kinds.BRANCH, others)
    words = (*known[:place], undecided(rests[-1], name, kinds.BRANCH, rests[:-1]))
    return words if several else join(words, " ", words[-1].line)


def one_of_folders(folders: Sequence[Word | None]) -> Word | None:
    """Return the folder behind branches: what each of them leaves, where that is not the same."""
    texts = [t for f in folders for t in (f.text.rstrip("/") if f else ".").split(" or ")]
    several = [*dict.fromkeys("." if text == "$PWD" else text for text in texts)]
    if len(several) == 1:
        return folders[-1]
    line = next(folder.line for folder in reversed(folders) if folder)
    shown = " or ".join(several) if len(several) <= MOST_FOLDERS else "one of several folders"
    return unknown(shown, kinds.BRANCH, line)


def _parameter(number: int) -> str:
    """Return an argument as the shell reads it: `$10` would be `$1` and a 0."""
    return f"${number}" if number < 10 else f"${{{number}}}"


def _parts(value: Value) -> Sequence[Word]:
    words = value.split(" ") if isinstance(value, Word) else value
    return [word for word in words if word.pieces]


def _behind(known: Sequence[Word], words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words behind those that are known; none where others come first."""
    same = [word.pieces for word in known] == [word.pieces for word in words[: len(known)]]
    return tuple(words[len(known) :]) if same else ()


def _all(values: Iterable[Value], name: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each value; none where some begin with an option, and others do not."""
    whole = list[tuple[str, ...]]()
    for value in values:
        items = (value,) if isinstance(value, Word) else value
        parts = [_choices(item, items is value) for item in items]
        choices = parts[0] if len(parts) == 1 else [tuple(chain(*chain(*parts)))]
        whole += (tuple(text for text in texts if text != f"${name}") for texts in choices)
    whole = [texts for texts in dict.fromkeys(whole) if texts]
    if sum(map(len, whole)) > MOST_WORDS:  # a list that grows in loops within loops
        return ()
    return tuple(whole) if len({texts[0][:1] == "-" for texts in whole}) == 1 else ()


def _choices(word: Word, whole: bool) -> Sequence[tuple[str, ...]]:
    """Return the words of each value of a variable alone, else of a text; a `whole` one is a word.

    In a text a piece that is not known is no word but a part of one.
    """
    if len(word.unknown) == len(word.pieces) == 1 and word.unknown[0].words:
        return word.unknown[0].words
    pieces = (p if isinstance(p, str) else "".join(p.source.split()) for p in word.pieces)
    return [(word.text,) if whole else tuple("".join(pieces).split())]
