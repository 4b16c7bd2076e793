"""The programs that batch scripts start, their options, and those that help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.settings.config_files import read_toml

from .words import WHO_KNOWS, Unknown, Word, compose


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of variables that hold options, and words that may be the script behind them or choose it.
OF_OPTIONS = re.compile(r"(?i)args|opt|flag|param|dist|launch")
OF_SCRIPT = re.compile(r"/|\.py$|^-m$|^--(module|no.python)$")
# What may follow options of a container: another one, an image's name, or a variable with it.
OF_IMAGE = re.compile(r"-|.*(\.(sif|simg|img)$|\w:[\w/])|\$\{?\w*(?i:sif|ima?ge?|container)")
DASHES = ("\u2013", "\u2014", "\u2212")  # of texts that were typeset


class KnownOptions:
    """A program's options. `values` take one; `short` has the letters' long names.

    `pairs` take a name and a value, as two words or as NAME=VALUE. Behind one of `last` come no
    more options. `single`: long options may have one dash (`-np 4`). `dashes`: an underscore is a
    dash. `same` are other names of an option. `kind` says what the program does, and those of the
    names in `also`.
    """

    def __init__(
        self, values: str, flags: str = "", short: str = "", pairs: str = "", last: str = "",
        single: bool = False, dashes: bool = False, kind: str = "", also: str = "", same: str = "",
    ) -> None:  # fmt: skip
        self.values, self.flags, self.pairs, self.last = map(names, (values, flags, pairs, last))
        pairs_of = (dict(pair.split("=") for pair in text.split()) for text in (short, same))
        self.short, self.same = pairs_of
        self.long = self.values | self.flags | self.pairs
        self.single, self.dashes, self.kind, self.also = single, dashes, kind, also.split()

    def name(self, text: str) -> str:
        """Return an option's full name; a beginning that fits one long option stands for it."""
        text = text.replace("_", "-") if self.dashes else text
        fits = [name for name in self.long if name.startswith(text)]
        text = fits[0] if text not in self.long and len(fits) == 1 and len(text) > 2 else text
        return self.same.get(text, text)


@dataclass(frozen=True)
class Option:
    name: str
    value: Word | None
    line: int

    @property
    def text(self) -> str:
        return self.value.text if self.value else ""


class Lookup:
    """Looks for options by their names; of several the last one counts."""

    options: Sequence[Option] = ()

    def all(self, *names: str) -> Iterator[Option]:
        return (option for option in self.options if option.name in names)

    def has(self, *names: str) -> bool:
        return any(self.all(*names))

    def get(self, *names: str) -> Word | None:
        values = [option.value for option in self.all(*names)]
        return values[-1] if values else None

    def values(self, *names: str) -> list[Word]:
        return [option.value for option in self.all(*names) if option.value]

    def text(self, *names: str) -> str:
        value = self.get(*names)
        return value.text if value else ""

    def count(self, *names: str) -> int | None:
        value = self.get(*names)
        return value.number if value else None

    def line_of(self, *names: str) -> int:
        return [1, *(option.line for option in self.all(*names))][-1]


@dataclass(frozen=True)
class Options(Lookup):
    """Options that were read, the words after them, and why the reading stopped early.

    `decided` are variables that hold further options or nothing, with who knows that.
    """

    options: Sequence[Option] = ()
    rest: Sequence[Word] = ()
    problem: str = ""
    decided: Sequence[str] = ()


def read(words: Sequence[Word], known: KnownOptions) -> Options:
    """Read the options before the first word that is none."""
    options, decided, left = list[Option](), list[str](), list(words)
    while left and left[0].text != "-":
        word = left[0]
        if word.text == "--":
            return Options(options, left[1:], "", decided)
        if word.unknown and not word.start and "/" not in word.text:
            held = _read_variable(left, known)
            if isinstance(held, str):
                return Options(options, left, held, decided)
            options += held[0]
            decided += held[1]
            left = left[1:]
            continue
        if word.start[:1] in DASHES:
            problem = f"{word.text} begins with a dash that no program knows: write -"
            return Options(options, left, problem, decided)
        if not word.start.startswith("-"):
            break
        option, used = _one(left, known)
        if option is None:
            return Options(options, left, f"the option {word.text} is not known", decided)
        options.append(option)
        left = left[used:]
        if option.name in known.last:
            break
    return Options(options, left, "", decided)


def _read_variable(
    left: Sequence[Word], known: KnownOptions
) -> tuple[list[Option], list[str]] | str:
    """Return the options that a variable holds, and who decides them; else a problem.

    It is "" where the variable is no option, but what follows the options.
    """
    word, piece = left[0], left[0].unknown[0]
    if is_python(word.text):
        return ""
    image = known.kind == "container" and not any(OF_IMAGE.match(w.text) for w in left[1:2])
    if known.kind in STARTING and word.text.endswith("-}") and not image:  # ${OPTIONS:-}
        return [], [f"{word.text}: your shell may have options in it"]
    if known.kind in STARTING and (names := _in_variable(piece, known)):
        placing = PLACING.issuperset(names) and known is not OPTIONS["srun"]
        kept = [name for name in names if placing or name in COUNTS]
        values = " or ".join(map(" ".join, piece.words))
        decided = [] if placing else [f"{word.text}, as {values}: {WHO_KNOWS[piece.kind]}"]
        return [Option(name, word, word.line) for name in kept], decided
    first = piece.words[0][0][:1] if piece.words else "-"
    if first not in ("-", "$") or _is_operand(left, known):
        return ""
    return f"{word.text} may be options; only the run knows"


def _is_operand(left: Sequence[Word], known: KnownOptions) -> bool:
    """Whether a variable holds no options: it is a script, or an image before its program."""
    variable, *more = left
    of_script = any(word.unknown or OF_SCRIPT.search(word.text) for word in more)
    script = known.kind == "agent" and not of_script and not OF_OPTIONS.search(variable.text)
    program = more[:1] and more[0].start and not OF_IMAGE.match(more[0].text)
    return not more or script or bool(known.kind == "container" and program)


def _in_variable(variable: Unknown, known: KnownOptions) -> list[str]:
    """Return the names of the options that a variable holds, where it holds nothing else."""
    lines = ([Word((text,), variable.line) for text in texts] for texts in variable.words)
    values = [read(line, known) for line in lines]
    names = [option.name for value in values for option in value.options]
    more = any(value.rest or value.problem for value in values)
    return [] if more else [*dict.fromkeys(names)]


def _one(left: Sequence[Word], known: KnownOptions) -> tuple[Option | None, int]:
    """Return the first option and how many words it takes; None for one that is not known."""
    word, following = left[0], (left[1] if len(left) > 1 else None)
    dashes = 2 if word.start.startswith("--") else 1
    head, *tail = word.split("=", 1)
    name = known.name(head.text[dashes:])
    value = tail[0] if tail else None
    if dashes == 1 and not (known.single and name in known.long):
        short, used = _short(word, following, known)
        behind = known.single and following is not None and following.start[:1] == "-"
        guessed = short is None and behind and len(name) > 2
        return (Option(name, None, word.line), 1) if guessed else (short, used)
    if value is None and name in known.pairs:
        if following and len(following.split("=", 1)) > 1:
            return Option(name, following, word.line), 2
        pair = (
            compose((*left[1].pieces, "=", *left[2].pieces), word.line) if len(left) > 2 else None
        )
        return Option(name, pair, word.line), 3
    if value is None and name in known.values:
        missing = following and following.start[:2] == "--" and "args" not in name
        return (None, 1) if missing else (Option(name, following, word.line), 2)
    flag = dashes == 2 and following is not None and following.start[:1] == "-"
    if value is not None or name in known.flags or (flag and name not in known.pairs):
        return Option(name, value, word.line), 1  # before an option, one not known is a flag
    return None, 1


def _short(word: Word, following: Word | None, known: KnownOptions) -> tuple[Option | None, int]:
    """Read -n 4, -n4, -n=4, flags such as -lu and -K1, and -ln4."""
    letters = word.start[1:]
    name = known.short.get(letters[:1])
    if name is None:
        return None, 1
    rest = compose((letters[1:], *word.pieces[1:]), word.line)
    if name in known.values:
        if not rest.pieces:
            return Option(name, following, word.line), 2
        return Option(name, rest, word.line), 1
    if rest.number is not None and name in known.flags:
        return Option(name, rest, word.line), 1
    if rest.pieces and name in known.flags:
        return _short(compose(("-", *rest.pieces), word.line), following, known)
    return (None if rest.pieces else Option(name, None, word.line)), 1


TABLES: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("programs.toml"))
OPTIONS = {name: KnownOptions(**table) for name, table in TABLES["options"].items()}


def _of_kind(kind: str) -> dict[str, KnownOptions]:
    of_kind = ((name, known) for name, known in OPTIONS.items() if known.kind == kind)
    return {word: known for name, known in of_kind for word in (name, *known.also)}


STARTING = ("starter", "container", "agent")
STARTERS, CONTAINERS, AGENTS = map(_of_kind, STARTING)
APPTAINER = ("apptainer", *OPTIONS["apptainer"].also)
PODMANS = ("podman", *OPTIONS["podman"].also)
DOCKERS = ("docker", "nvidia-docker")  # whose images the launch runs with Apptainer
# Programs before a command that change its CPUs or variables, and whose `run` starts a command in
# an environment.
WITH_OPTIONS, RUNNING = map(_of_kind, ("before", "environment"))
# Modules that start an agent.
LAUNCHERS: dict[str, str] = TABLES["launchers"]
OF_DIRECTIVE = "<image of the directive>"
SHELLS = ("bash", "sh", "zsh", "dash")
FINDERS: dict[str, str] = TABLES["finders"]


NAMES = {name: names(text) for name, text in TABLES["names"].items()}
LOOKING, FILTERS, SAID, TOOLS = (NAMES[n] for n in ("looking", "filters", "said", "tools"))
CLUSTERS, WRAPPERS = NAMES["clusters"], NAMES["wrappers"]
HELPERS, PREPARING = FILTERS | CLUSTERS | NAMES["helpers"], SAID | NAMES["preparing"]
OF_SHELL, PLACING, OF_COUNTS = (NAMES[n] for n in ("of_shell", "placing", "of_counts"))
COUNTS = NAMES["counts"]
HARMLESS = tuple(NAMES["harmless"])
PLACE, BEFORE = NAMES["place"], NAMES["before"]
# Beginnings of the options that runner gives to agents.
GIVEN = tuple(NAMES["given"])


# Also a variable by its name or default: $PYTHON_BIN, ${PY:-python3}.
PYTHON = re.compile(
    r"(?:.*/|\$\{\w+:?-)?python[\d.]*\}?|\$\{?(?i:\w*python\d*(?:_?(?:bin|exe|cmd))?)\}?"
)


def is_python(text: str) -> bool:
    return PYTHON.fullmatch(text) is not None


def agent_at(words: Sequence[Word]) -> int:
    """Return where an agent begins, as torchrun or `python -m torch.distributed.run`; else -1."""
    names = [word.text.rpartition("/")[2] for word in words]
    place = next((n for n, name in enumerate(names) if name in AGENTS), -1)
    return place - 2 if place > 0 and names[place - 1] == "-m" else place


def is_data(text: str) -> bool:
    """Whether a path is rather a folder for a runscript, as /bids, than a program."""
    name = text.rpartition("/")[2]
    program = "/bin/" in text or "build/" in text or "." in name or text.startswith("./")
    known = name in SHELLS or name in AGENTS or is_python(name)
    return "/" in text and not (program or known)
