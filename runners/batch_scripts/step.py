"""A step of a job: the programs that start a training, from the outermost to the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .commands import Command
from .programs import Options
from .words import Piece, Word


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
    `dropped` what a launch does without, `notes` what is to be looked at.
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
    notes: list[tuple[int, str]] = field(default_factory=list)
    fed: bool = False
    login: bool = False
    lead: list[Piece] = field(default_factory=list)
    bare: bool = False
    prefix: list[Word] = field(default_factory=list)

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

    @property
    def names(self) -> list[str]:
        return [word.text.rpartition("/")[2] for word in self.program[:3]]
