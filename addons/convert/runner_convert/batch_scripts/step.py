"""A step of a job: the programs that start a training, what it is for, and its parts.

Parts of one launch are each started on one node: the first stands for them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .commands import Command
from .programs import (
    AGENTS,
    HARMLESS,
    HELPERS,
    LOOKING,
    PLACE,
    PREPARING,
    SAID,
    SHELLS,
    TOOLS,
    WRAPPERS,
    Options,
    is_python,
)
from .words import BRANCH, Piece, Word, join

ASKING = ("--version", "-V", "-VV", "--help", "-h")  # of Python


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
    `by_name`: the environment is one of conda's, by its name.
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
    by_name: bool = False
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
        return next((layer for layer in self.layers if layer.kind == kind), Layer())

    @property
    def starter(self) -> Layer:
        return self.layer("starter")

    @property
    def launcher(self) -> Layer:
        """The launcher that each task of the starter starts: horovodrun of `srun horovodrun`."""
        starters = [
            layer for layer in self.layers if layer.kind == "starter" and layer.name != "ssh"
        ]
        return starters[-1] if starters[1:] else Layer()

    @property
    def starts_in_shell(self) -> bool:
        """Whether a starter stands in the text of a shell: bash -c '...; mpirun ...'."""
        behind = self.layers[self.depth("shell") + 1 :] if self.layer("shell") else []
        return any(layer.kind == "starter" for layer in behind)

    @property
    def container(self) -> Layer:
        return self.layer("container")

    @property
    def agent(self) -> Layer:
        return self.layer("agent")

    def depth(self, kind: str) -> int:
        """Return how far inside the first layer of a kind is, -1 for none."""
        return next((n for n, layer in enumerate(self.layers) if layer.kind == kind), -1)

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


def runs_python(step: JobStep) -> bool:
    words = [word.text for word in step.program]
    words = words if "".join(step.names[:1]) in WRAPPERS else words[:1]
    return any(is_python(w) or w.endswith(".py") for w in words) or bool(step.agent)


def shell_scripts(step: JobStep) -> list[str]:
    """Return the shell scripts that a step runs, `bash train.sh` or `./train.sh`; none is read."""
    lists = [step.program, *(command.words for command in step.inner)]
    sourced = (command for command in step.inner if command.name in ("source", "."))
    texts = (command.arguments[0].text for command in sourced if command.arguments)
    files = [text for text in texts if text != "activate" and not text.endswith(HARMLESS)]
    for first, *more in (words for words in lists if words):
        if first.text in WRAPPERS:
            shell = next((n for n, word in enumerate(more) if word.text in SHELLS), len(more) - 1)
            first, *more = more[shell:] or [first]
        if first.text.rpartition("/")[2] not in SHELLS:
            files += [first.text] if first.text.endswith((".sh", ".bash")) else []
        elif not any(word.text in ("-c", "-lc") for word in more):
            files += [word.text for word in more if word.start[:1] not in ("-", "+")][:1]
    return files


def hidden_agents(step: JobStep) -> list[str]:
    """Return the agents among the words of a program that is not known, as another container's."""
    names = [word.text.rpartition("/")[2] for word in step.program[1:]]
    return [] if runs_python(step) else [name for name in names if name in AGENTS]


def starts_training(step: JobStep) -> bool:
    """Whether a step starts a training, as far as the script tells."""
    first, names = "".join(step.names[:1]), step.names
    helps = first in HELPERS | LOOKING | PREPARING or (names[1:2] == ["-m"] and names[-1] in TOOLS)
    asks = (["-c"], *([word] for word in ASKING), *([] if step.layers else [[]]))  # python < text
    helps = helps or (is_python(first) and names[1:2] in asks)
    helps = helps or (first in SHELLS and not names[1:] and not step.command.inputs)
    helps = helps or "setup.py" in names or step.command.text.endswith(" --version")
    helps = helps or (step.command.within == "until" and {x.kind for x in step.layers} <= {"shell"})
    if step.starter.name == "ssh":
        within = step.container or sum(layer.kind == "starter" for layer in step.layers) > 1
        return bool(step.program and is_part(step) and not helps and (runs_python(step) or within))
    return bool(step.program and not helps and (step.layers or runs_python(step)))


def does_more(command: Command) -> bool:
    """Whether a command in `bash -c` does what a launch line does not say."""
    return not command.within and command.name not in SAID | LOOKING


def is_part(step: JobStep) -> bool:
    """Whether a step starts the agent of one node, and like steps those of the others.

    So does an ssh in a loop, whatever it starts.
    """
    numbered = step.agent.has("node-rank", "machine-rank")
    machines = step.agent.get("nnodes", "num-machines", "num-nodes", "world-size")
    if not step.starter:  # on the script's own node, beside those by ssh
        beside = step.command.loops and step.command.background
        return bool(numbered and machines and machines.text != "1" and beside)
    if step.starter.name == "ssh":
        return bool(step.command.loops) or numbered
    counts = step.starter.count("nodes"), step.starter.count("ntasks")
    on_one_node = 1 in counts and step.starter.has("nodelist", "relative", "host", "hosts", "H")
    several = numbered or (machines and machines.text != "1")
    return bool(machines and several and on_one_node)


def first_parts(steps: Sequence[JobStep]) -> list[JobStep]:
    """Return steps with the first one alone of the parts of each launch."""
    kept = list[JobStep]()
    for step in steps:
        before = (earlier for earlier in reversed(kept) if is_part(step) and is_part(earlier))
        first = next((earlier for earlier in before if _together(earlier, step)), step)
        if first is step:
            kept.append(step)
        own_words, first_words = (
            {n: w.text for n, w in _trainer_words(s).items()} for s in (step, first)
        )
        mine, theirs = (first_words, own_words) if step.remote else (own_words, first_words)
        lacks = [name for name in mine if name not in theirs and first.remote != step.remote]
        differs = _varies(step) or mine != {**theirs, **{name: mine[name] for name in lacks}}
        if is_part(step) and differs and not first.problems:
            text = "it is started by hand on each node, with other words or variables on each"
            first.problems.append((first.line, text))
        elif lacks:
            first.notes.append((step.line, f"by ssh it does not get {', '.join(lacks)}"))
    return kept


def _together(first: JobStep, second: JobStep) -> bool:
    """Whether two parts are of one launch: those of one loop, and an agent beside it."""
    loops = {first.command.loops, second.command.loops}
    return len(loops) == 1 or bool(0 in loops and first.agent and second.agent)


def _varies(step: JobStep) -> bool:
    """Whether what a step starts differs from round to round of its loop."""
    pieces = (piece for word in _trainer_words(step).values() for piece in word.unknown)
    return any(p.kind == BRANCH and p.line >= step.command.loops for p in pieces)


def _trainer_words(step: JobStep) -> dict[str, Word]:
    """What the trainer is told: its words, by "", and variables but those of its place."""
    words = join((*step.program, *(() if step.agent else step.shell)), " ", step.line)
    variables = {**step.outside.exports, **step.env}
    return {"": words, **{name: v for name, v in variables.items() if name not in PLACE}}
