"""What a script does, as values: commands, what they start, and what is known of variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from . import words as kinds
from .programs import HELPERS, LOOKING, NAMES, TOOLS, WRAPPERS, Options, is_python
from .words import Piece, Unknown, Word, literal, unknown

Value = Union[Word, tuple[Word, ...]]
TASK = "SLURM_ARRAY_TASK_ID"
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID")
OF_JOB = (*JOB_NUMBERS, "PBS_NODEFILE", "SLURM_JOB_NODELIST")  # never empty in a job
NODE_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "HOSTNAME")
OF_RUN, OWN = tuple(NAMES["of_run"]), NAMES["own"]
# The script's shell runs on the first node, and is no rank.
OF_FIRST = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
# The folder in which the script was submitted; there the launch line is typed.
SUBMITTED = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "COBALT_CWD")
# Variables that every login has, whatever a sourced file sets.
OF_LOGIN = ("USER", "HOME", "LOGNAME", "PWD", "SCRATCH", "PSCRATCH", "WORK", "PATH", "SHELL")
BRANCH_OF = ", branch "


@dataclass(frozen=True)
class Command:
    """One simple command, with its words expanded and what holds where it stands.

    `given` are the assignments before it, `exports` the exported variables, `folder` that of the
    last cd, None for the one in which the script began. `conditions` say what decides whether it
    runs. `pipe` are the commands that read its output, `inputs` its redirected files, `document`
    its here-document. `within` is "substitution" for one in $(...), "test" for the condition of an
    `if`. `facts` are variables that the directives fix, equal on all ranks; `functions` are the
    texts of those that `export -f` hands on; `source` is its own.
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
    functions: tuple[Word, ...] = ()
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

    `faults` are lines that the grammar does not know, `embedded` the first directives of
    here-documents, and `comments` all comments by line.
    """

    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)
    octal: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)


@dataclass
class Scope:
    """What is known of variables at a place of the script.

    `given` has what the directives fix, such as SLURM_NNODES. `sourced`: a file was read that may
    set any variable. `per_rank`: the text runs once on each rank. `arguments` are None for those of
    the script, which only the submission knows.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: list[Word] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    sourced: bool = False
    per_rank: bool = False

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def value(self, name: str, line: int) -> Value:
        """Return a variable's value, or what kind of unknown it is."""
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal():
            arguments, place = self.arguments or [], int(name) - 1
            if 0 <= place < len(arguments):
                return arguments[place]
            return unknown(f"${name}" if len(name) == 1 else f"${{{name}}}", kinds.ARGUMENT, line)
        if name in self.given:
            return literal(self.given[name], line)
        folder = self.variables.get("PWD")
        if name in SUBMITTED and (not isinstance(folder, Word) or folder.text == "$PWD"):
            return unknown("$PWD", kinds.ENVIRONMENT, line)
        if name in NODE_LISTS:
            return unknown(f"${name}", kinds.ADDRESS, line)
        if name in OF_FIRST and not self.per_rank:
            return literal("0", line)
        if (name in OWN or not name.isidentifier()) and not self.per_rank:
            return unknown(f"${name}", kinds.BATCH, line)
        if name.startswith(OF_RUN) or name in (*OWN, "TMPDIR") or not name.isidentifier():
            return unknown(f"${name}", kinds.RUN, line)
        by_file = self.sourced and name not in OF_LOGIN
        return unknown(f"${name}", kinds.FILE if by_file else kinds.ENVIRONMENT, line)


def hidden(value: Value, name: str, kind: str) -> Word:
    """Return a variable whose value differs; what it was made of stays known to the rules."""
    items = [value] if isinstance(value, Word) else [*value]
    word = items[0] if len(items) == 1 else literal("", items[0].line if items else 0)
    digits, padded = (any(getattr(p, n) for p in word.unknown) for n in ("digits", "padded"))
    options = tuple(text.lstrip("-") for text in word.text.split() if text[:1] == "-")
    return Word((Unknown(f"${name}", kind, word.line, (), digits, padded, options),), word.line)


@dataclass(frozen=True)
class Layer(Options):
    """A starter, container, agent or shell of a command, as `kind` says; none is false."""

    kind: str = ""
    name: str = ""
    line: int = 0

    def __bool__(self) -> bool:
        return bool(self.kind)

    def values(self, *names: str) -> list[Word]:
        return [option.value for option in self.all(*names) if option.value]

    def text(self, name: str) -> str:
        value = self.get(name)
        return value.text if value else ""

    def count(self, *names: str) -> int | None:
        value = self.get(*names)
        return value.number if value else None


@dataclass
class Step:
    """One start of a program: the layers from the outermost, and the program with its arguments.

    `inner` are the commands of a `bash -c '...'` or `bash <<EOF`, run on each rank; `shell` is its
    text, with the words behind it, where it does more than to set variables and start; `fed`: it is
    a here-document; `lead` is what stands in it before an agent; `bare`: no agent is to start.
    `env` is set on the way; `image` and `action` are the container's, `environment` that of
    `uv run`, which in an image is the `prefix`. `problems` are what could not be understood,
    `dropped` what a launch does without.
    """

    command: Command
    layers: list[Layer] = field(default_factory=list)
    program: list[Word] = field(default_factory=list)
    env: dict[str, Word] = field(default_factory=dict)
    image: Word | None = None
    action: str = ""
    environment: Word | None = None
    inner: list[Command] = field(default_factory=list)
    shell: list[Word] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    dropped: list[tuple[int, str]] = field(default_factory=list)
    fed: bool = False
    lead: list[Piece] = field(default_factory=list)
    bare: bool = False
    prefix: list[Word] = field(default_factory=list)

    @property
    def part(self) -> bool:
        """Whether it starts the agent of one node, and like steps those of the others."""
        told = self.agent.get("nnodes", "num-machines", "num-nodes", "world-size")
        counts = self.starter.count("nodes"), self.starter.count("ntasks")
        one = 1 in counts and self.starter.has("nodelist", "relative")
        several = self.agent.has("node-rank", "machine-rank") or (told and told.text != "1")
        return bool(told and several and one)

    @property
    def line(self) -> int:
        return self.command.line

    def layer(self, kind: str) -> Layer:
        """Return the first layer of a kind, a false one for none."""
        return next((each for each in self.layers if each.kind == kind), Layer())

    @property
    def starter(self) -> Layer:
        return self.layer("starter")

    @property
    def container(self) -> Layer:
        return self.layer("container")

    @property
    def agent(self) -> Layer:
        return self.layer("agent")

    @property
    def direct(self) -> bool:
        """Whether the ranks of its agent are the same without it, as far as its options tell."""
        options = {option.name for option in self.agent.options}
        shells = sum(layer.kind == "shell" for layer in self.layers)
        plain = self.agent.name.startswith("torch") and shells < 2
        return self.bare or (plain and options.isdisjoint(("max-restarts", "run-path")))

    def place(self, kind: str) -> int:
        """Return how far inside the first layer of a kind is, -1 for none."""
        return next((n for n, each in enumerate(self.layers) if each.kind == kind), -1)

    @property
    def variables(self) -> Mapping[str, Word]:
        return {**self.command.exports, **self.command.given}

    @property
    def names(self) -> list[str]:
        return [word.text.rpartition("/")[2] for word in self.program[:3]]

    @property
    def python(self) -> bool:
        words = [word.text for word in self.program]
        words = words if "".join(self.names[:1]) in WRAPPERS else words[:1]
        return any(is_python(w) or w.endswith(".py") for w in words) or bool(self.agent)

    @property
    def starts(self) -> bool:
        """Whether it starts a training, as far as the script tells."""
        first, names = "".join(self.names[:1]), self.names
        helps = first in HELPERS | LOOKING or (names[1:2] == ["-m"] and names[-1] in TOOLS)
        asks = (["-c"], ["--version"], *([] if self.layers else [[]]))  # python < text
        helps = helps or (is_python(first) and names[1:2] in asks)
        helps = helps or "setup.py" in names or self.command.text.endswith(" --version")
        return bool(self.program and not helps and (self.layers or self.python))
