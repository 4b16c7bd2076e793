"""What a command starts: its launchers, container, agent and trainer, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import options
from .content import Command
from .expand import Scope
from .options import Options
from .programs import (
    AGENTS,
    BEFORE,
    CONTAINERS,
    HELPERS,
    LOOKING,
    OF_DIRECTIVE,
    PREPARING,
    SAID,
    SHELLS,
    STARTERS,
    TOOLS,
    WITH_OPTIONS,
    is_python,
)
from .read import read
from .words import Unknown, Word, literal, made


@dataclass(frozen=True)
class Layer:
    """One program of a command, with its options. `kind` is starter, container, agent or shell."""

    kind: str
    name: str
    options: Options
    line: int

    def get(self, *names: str) -> Word | None:
        return self.options.get(*names)

    def count(self, *names: str) -> int | None:
        value = self.options.get(*names)
        return value.number if value else None


@dataclass(frozen=True)
class Step:
    """One start of a program: the layers from the outermost, and the program with its arguments.

    `inner` are the commands of a `bash -c '...'`, run on each rank; `shell` is its text, with the
    words behind it, where it does more than to set variables and start. `env` is set on the way;
    `image` and `action` are the container's. `problems` are what could not be understood.
    """

    command: Command
    layers: tuple[Layer, ...] = ()
    program: tuple[Word, ...] = ()
    flags: tuple[Word, ...] = ()
    env: Mapping[str, Word] = field(default_factory=dict)
    image: Word | None = None
    action: str = ""
    inner: tuple[Command, ...] = ()
    shell: tuple[Word, ...] = ()
    problems: tuple[tuple[int, str], ...] = ()

    @property
    def line(self) -> int:
        return self.command.line

    def layer(self, kind: str) -> Layer | None:
        return next((each for each in self.layers if each.kind == kind), None)

    def place(self, kind: str) -> int:
        """Return how far inside the first layer of a kind is, -1 for none."""
        return next((n for n, each in enumerate(self.layers) if each.kind == kind), -1)

    @property
    def python(self) -> bool:
        """Whether the program is Python, or a script for it."""
        first = self.program[0].text if self.program else ""
        return is_python(first) or first.endswith(".py") or self.layer("agent") is not None

    @property
    def looks(self) -> bool:
        """Whether it only shows what is there."""
        names = [word.text.rpartition("/")[2] for word in self.program[:1]]
        return bool(names) and names[0] in LOOKING

    @property
    def starts(self) -> bool:
        """Whether it starts a training, as far as the script tells."""
        texts = [word.text.rpartition("/")[2] for word in self.program[:3]]
        helps = texts[:1] and (texts[0] in HELPERS or (texts[1:2] == ["-m"] and texts[-1] in TOOLS))
        return bool(self.program and not helps and not self.looks and (self.layers or self.python))


def of(command: Command) -> Step:
    """Return what a command starts."""
    return _Reader(command).step()


class _Reader:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.left = list(command.words)
        self.layers: list[Layer] = []
        self.flags: list[Word] = []
        self.env = dict(command.given)
        self.image: Word | None = None
        self.action = ""
        self.inner: list[Command] = []
        self.shell: tuple[Word, ...] = ()
        self.extras: list[Command] = []
        self.problems: list[tuple[int, str]] = []

    def step(self) -> Step:
        while self.left and self._layer():
            pass
        return Step(
            self.command,
            tuple(self.layers),
            tuple(self.left),
            tuple(self.flags),
            self.env,
            self.image,
            self.action,
            tuple(self.inner),
            self.shell,
            tuple(self.problems),
        )

    def _layer(self) -> bool:
        """Take the first program off; False where it is the last one."""
        name = self.left[0].text.rpartition("/")[2]
        if name in STARTERS:
            return self._starter(name)
        if name in CONTAINERS:
            return self._container(name)
        if name in AGENTS and (name != "accelerate" or self._follows("launch")):
            return self._agent(name, 2 if name == "accelerate" else 1)
        if is_python(name):
            return self._python()
        if name in SHELLS:
            return self._shell()
        return self._prefix(name)

    def _follows(self, word: str) -> bool:
        return len(self.left) > 1 and self.left[1].text == word

    def _options(self, words: Sequence[Word], known: options.Grammar) -> Options:
        read_ = options.read(words, known)
        if read_.problem:
            self.problems.append((self.command.line, read_.problem))
        self.left = list(read_.rest)
        return read_

    def _starter(self, name: str) -> bool:
        line = self.left[0].line
        read_ = self._options(self.left[1:], STARTERS[name])
        self.layers.append(Layer("starter", name, read_, line))
        if any(word.text == ":" for word in self.left):
            self.problems.append((line, f"{name} with several parts (:) is a heterogeneous job"))
        if name == "srun" and read_.has("container-image", "container-name"):
            self.image = read_.get("container-image")
            self.layers.append(Layer("container", "pyxis", read_, line))
        for option in read_.all("export") if name == "srun" else ():
            self._set(option.value.split(",") if option.value else ())
        for option in read_.all("x", "env"):
            self._set(option.value.split(",") if option.value else ())
        return not read_.problem

    def _container(self, name: str) -> bool:
        line, words = self.left[0].line, self.left[1:]
        if name != "shifter":
            globals_ = [word for word in words if word.text in ("exec", "run", "shell", "instance")]
            if not globals_ or globals_[0].text in ("shell", "instance"):
                return False
            self.action = globals_[0].text
            words = words[words.index(globals_[0]) + 1 :]
        read_ = options.read(words, CONTAINERS[name])
        if read_.problem and len(read_.rest) > 1 and _is_program(read_.rest[1].start):
            read_ = replace(read_, problem="")  # one word, then a program: the image
        if read_.problem:
            self.problems.append((line, read_.problem))
        self.left = list(read_.rest)
        self.layers.append(Layer("container", name, read_, line))
        for option in read_.all("env"):
            self._set(option.value.split(",") if option.value else ())
        if name == "shifter":
            self.image = read_.get("image") or literal(OF_DIRECTIVE, line)
        elif self.left:
            self.image = self.left.pop(0)
        if self.left and _is_flag(self.left[0]):
            self.problems.append((line, "what the image's runscript starts is not known"))
        return not read_.problem

    def _set(self, words: Sequence[Word]) -> None:
        for word in words:
            name, *value = word.split("=", 1)
            if value:
                self.env[name.text] = value[0]

    def _agent(self, name: str, used: int) -> bool:
        line = self.left[0].line
        read_ = self._options(self.left[used:], AGENTS[name])
        self.layers.append(Layer("agent", name, read_, line))
        if read_.has("module", "m"):
            self.left = [literal("-m", line), *self.left]
        if read_.has("no-python"):
            return True
        if self.left and self.left[0].text == "-m":
            self.left.insert(0, literal("python", line))
        return False

    def _python(self) -> bool:
        """Take off what `python -m` starts, and flags before a script."""
        read_ = options.read(self.left[1:], options.PYTHON)
        module = read_.get("m")
        if module and module.text in AGENTS:
            self.left = [module, *read_.rest]
            return self._agent(module.text, 1)
        if module and module.text in ("accelerate.commands.launch", "deepspeed.launcher.runner"):
            name = module.text.partition(".")[0]
            self.left = [module, *read_.rest]
            return self._agent(name, 1)
        if read_.problem or module or read_.has("c"):
            return False
        if read_.rest and read_.rest[0].text.rpartition("/")[2] in AGENTS:
            self.left = list(read_.rest)  # python $(which torchrun), python /bin/torchrun
            return True
        others = [option for option in read_.options if option.name != "u"]
        if read_.rest and not others:
            self.left = [self.left[0], *read_.rest]
        return False

    def _shell(self) -> bool:
        """Read `bash -c '...'`: the last command in it is the program."""
        words = self.left[1:]
        place = next((n for n, word in enumerate(words) if not _is_flag(word)), len(words))
        flags = [word.text for word in words[:place]]
        if not any("c" in flag[1:] and not flag.startswith("--") for flag in flags):
            return False
        if place == len(words):
            return False
        self.layers.append(Layer("shell", self.left[0].text, Options(), self.left[0].line))
        outer = dict(self.env)
        read_ = self._script(words[place], words[place + 2 :])
        if self.extras:
            self.shell = tuple(words[place:])
            self.env = outer if not self._has_agent() else self.env
        return read_

    def _script(self, word: Word, arguments: Sequence[Word]) -> bool:
        """Read the text of `bash -c`; unknown pieces become variables that stand for them."""
        names, parts = dict[str, Word](), list[str]()
        for piece in word.pieces:
            if isinstance(piece, Unknown):
                names[f"PIECE_{len(names)}"] = made([piece], word.line)
                parts.append(f"${{PIECE_{len(names) - 1}}}")
            else:
                parts.append(piece)
        known = {**self.command.exports, **self.env}
        scope = Scope({**known, **names}, set(known), list(arguments), per_rank=True)
        content = read("".join(parts), scope, word.line - 1)
        self.problems += [(line, "this is not understood") for line in content.faults]
        self.inner = content.commands
        for each in content.assignments:
            self.env.setdefault(each.name, each.value)
        chosen = _last_start(content.commands)
        if chosen is None:
            self.problems.append((word.line, "no program is recognized in this text"))
            return False
        self.extras = [c for c in content.commands if c is not chosen and _does_more(c)]
        self.env.update({**chosen.exports, **chosen.given})
        self.left = list(chosen.words)
        return True

    def _has_agent(self) -> bool:
        """Whether what is left, or was read, is an agent such as torchrun."""
        names = {word.text.rpartition("/")[2] for word in self.left[:4]}
        return bool(names & set(AGENTS)) or any(each.kind == "agent" for each in self.layers)

    def _prefix(self, name: str) -> bool:
        """Take off time, env A=1, nice and the like."""
        if name in BEFORE:
            self.left = self.left[1:]
            if name == "eval" and self.left:
                text = made([p for w in self.left for p in (*w.pieces, " ")], self.left[0].line)
                return self._script(text, ())
            return bool(self.left)
        if name in WITH_OPTIONS:
            read_ = options.read(self.left[1:], WITH_OPTIONS[name])
            rest = list(read_.rest)
            while name == "env" and rest and "=" in rest[0].start:
                self._set([rest.pop(0)])
            if not rest:
                return False
            self.left = rest
            return True
        if name == "timeout" and len(self.left) > 2:
            place = 1
            while self.left[place].text.startswith("-"):
                place += 2 if self.left[place].text in ("-s", "-k") else 1
            note = f"timeout {self.left[place].text}: --time limits the job"
            self.problems.append((self.left[0].line, note))
            self.left = self.left[place + 1 :]
            return bool(self.left)
        return False


def _is_program(text: str) -> bool:
    """Whether a word is no option, and no image either."""
    image = text.endswith((".sif", ".simg", ".img")) or "://" in text
    return bool(text) and not text.startswith("-") and not image


def _is_flag(word: Word) -> bool:
    return word.start.startswith(("-", "+"))


def _does_more(command: Command) -> bool:
    """Whether a command in `bash -c` does what a launch line does not say."""
    return not command.within and command.name not in SAID | LOOKING


def _last_start(commands: Sequence[Command]) -> Command | None:
    """Return the last command of a text that is a training, or else more than a preparation."""
    chosen = [c for c in commands if not c.within and c.name not in PREPARING | LOOKING]
    best = [c for c in chosen if of(c).starts] or chosen or commands
    return best[-1] if best else None
