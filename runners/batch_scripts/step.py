"""A step of a job: the programs that start a training, from the outermost to the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .commands import Command
from .programs import (
    HELPERS,
    LOOKING,
    PLACE,
    PREPARING,
    SHELLS,
    TOOLS,
    WRAPPERS,
    Options,
    is_python,
)
from .words import BRANCH, Piece, Word


@dataclass(frozen=True)
class Layer(Options):
    """A starter, container, agent or shell of a command, as `kind` says; none is false."""

    kind: str = ""
    name: str = ""
    line: int = 0

    def __bool__(self) -> bool:
        return bool(self.kind)


@dataclass
class JobStep:
    """One start of a program: the layers from the outermost, and the program with its arguments.

    `inner` are the commands of a `bash -c '...'` or `bash <<EOF`, run on each rank; `shell` is its
    text, with the words behind it, where it does more than to set variables and start; `fed`: it is
    a here-document; `login`: a login shell reads it; `lead` is what stands in it before an agent;
    `bare`: no agent is to start.
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
    login: bool = False
    lead: list[Piece] = field(default_factory=list)
    bare: bool = False
    prefix: list[Word] = field(default_factory=list)

    @property
    def part(self) -> bool:
        """Whether it starts the agent of one node, and like steps those of the others.

        So does an ssh in a loop, whatever it starts.
        """
        numbered = self.agent.has("node-rank", "machine-rank")
        if self.starter.name == "ssh":
            return bool(self.command.loops) or numbered
        told = self.agent.get("nnodes", "num-machines", "num-nodes", "world-size")
        counts = self.starter.count("nodes"), self.starter.count("ntasks")
        one = 1 in counts and self.starter.has("nodelist", "relative")
        several = numbered or (told and told.text != "1")
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

    def depth(self, kind: str) -> int:
        """Return how far inside the first layer of a kind is, -1 for none."""
        return next((n for n, each in enumerate(self.layers) if each.kind == kind), -1)

    @property
    def remote(self) -> bool:
        """Whether it is started by what hands no folder and no variables on."""
        return self.starter.name in ("ssh", "pbsdsh")

    @property
    def outside(self) -> Command:
        """The command with the folder and the exports that reach it."""
        return replace(self.command, folder=None, exports={}) if self.remote else self.command

    @property
    def variables(self) -> Mapping[str, Word]:
        return {**self.outside.exports, **self.command.given}

    def same(self, other: JobStep) -> bool:
        """Whether another part of a launch starts the same."""
        return [word.text for word in self._told] == [word.text for word in other._told]

    @property
    def varies(self) -> bool:
        """Whether what it starts differs from round to round of its loop."""
        pieces = (piece for word in self._told for piece in word.unknown)
        return any(p.kind == BRANCH and p.line >= self.command.loops for p in pieces)

    @property
    def _told(self) -> list[Word]:
        """All that tells the trainer what to do, but not which rank it is."""
        variables = {**self.outside.exports, **self.env}
        own = [value for name, value in variables.items() if name not in PLACE]
        return [*self.program, *(() if self.agent else self.shell), *own]

    @property
    def names(self) -> list[str]:
        return [word.text.rpartition("/")[2] for word in self.program[:3]]

    @property
    def python(self) -> bool:
        words = [word.text for word in self.program]
        words = words if "".join(self.names[:1]) in WRAPPERS else words[:1]
        return any(is_python(w) or w.endswith(".py") for w in words) or bool(self.agent)

    @property
    def scripts(self) -> list[str]:
        """The shell scripts that it runs, which are not read: `bash train.sh`, `./train.sh`."""
        lists = [self.program, *(each.words for each in self.inner)]
        shells = (words[1:] if words[0].text in SHELLS else words[:1] for words in lists if words)
        files = (next((w.text for w in words if w.start[:1] != "-"), "") for words in shells)
        return [file for file in files if file.endswith((".sh", ".bash"))]

    @property
    def starts(self) -> bool:
        """Whether it starts a training, as far as the script tells."""
        first, names = "".join(self.names[:1]), self.names
        helps = first in HELPERS | LOOKING | PREPARING or (
            names[1:2] == ["-m"] and names[-1] in TOOLS
        )
        asks = (["-c"], ["--version"], *([] if self.layers else [[]]))  # python < text
        helps = helps or (is_python(first) and names[1:2] in asks)
        helps = helps or (first in SHELLS and not names[1:] and not self.command.inputs)
        helps = helps or "setup.py" in names or self.command.text.endswith(" --version")
        if self.starter.name == "ssh":
            within = self.container or sum(layer.kind == "starter" for layer in self.layers) > 1
            return bool(self.program and self.part and not helps and (self.python or within))
        return bool(self.program and not helps and (self.layers or self.python))
