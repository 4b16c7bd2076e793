"""What a command starts: its launchers, container, agent and trainer, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from . import programs, syntax
from .commands import JOB_NUMBERS, Command, Scope
from .compound_commands import read_commands
from .programs import Options
from .step import JobStep, Layer, does_more, starts_training
from .words import (
    ADDRESS,
    BRANCH,
    RUN,
    Piece,
    Unknown,
    Word,
    compose,
    folder_before,
    is_flag,
    join,
    known_on_rank,
    literal,
    restored,
    with_placeholders,
)


def unwrap(command: Command) -> JobStep:
    """Return what a command starts."""
    step = _Reader(command, program=list(command.words), env=dict(command.given))
    while step.program and step.next_layer():
        pass
    return step


@dataclass
class _Reader(JobStep):
    """A step while its words are read: `program` are those that are left."""

    def next_layer(self) -> bool:
        """Take the first program off; False where it is the last one."""
        name, folder = (
            self.program[0].text.rpartition("/")[2],
            folder_before(self.program[0], "/bin/"),
        )
        if name in programs.AGENTS or programs.is_python(name):
            self.environment = folder if folder.text not in ("", "/usr") else self.environment
        if name in programs.STARTERS:
            return self._starter(name)
        if name in programs.CONTAINERS:
            return self._container(name)
        if name in programs.AGENTS and (name != "accelerate" or self.names[1:2] == ["launch"]):
            return self._agent(name, 1 + (name == "accelerate"))
        if programs.is_python(name):
            return self._python()
        if name in programs.SHELLS:
            return self._shell()
        if name == "ssh":
            return self._ssh()
        return self._prefix(name)

    def _add(self, kind: str, name: str, line: int, read_: Options) -> None:
        if read_.problem:
            self.problems.append((line, read_.problem))
        self.dropped += [(line, f"{name} {text}") for text in read_.decided]
        self.program = list(read_.rest)
        self.layers.append(Layer(read_.options, kind=kind, name=name, line=line))

    def _starter(self, name: str) -> bool:
        line = self.program[0].line
        read_ = programs.read(self.program[1:], programs.STARTERS[name])
        if self.starter.name == "ssh":
            text = f"{name} within ssh: what it starts on each node is a job of its own"
            self.problems.append((line, text))
        self._add("starter", name, line, read_)
        if any(word.text == ":" for word in self.program):
            self.problems.append((line, f"{name} with several parts (:) is a heterogeneous job"))
        job = read_.get("jobid")
        if job and job.text.strip("${}") not in JOB_NUMBERS:
            self.problems.append((line, f"--jobid={job.text}: a step of another job"))
        if name == "pbsdsh" and read_.has("n", "c"):
            self.problems.append((line, "pbsdsh: it starts this on some nodes of the job only"))
        if read_.has("multi-prog"):
            self.problems.append((line, f"{name} --multi-prog starts different programs"))
        if name == "srun" and read_.has("container-image", "container-name"):
            self.image = read_.get("container-image")
            self.layers.append(Layer(read_.options, kind="container", name="pyxis", line=line))
        for value in read_.values("export") if name == "srun" else ():
            self._set(value.split(","))
        for option in read_.all("x", "e", "env", "mca", "gmca", "genv", "env-pair"):
            prefix = "OMPI_MCA_" if option.name.endswith("mca") else ""
            self._set([compose((prefix, *option.value.pieces), line)] if option.value else [])
        return not read_.problem

    def _container(self, name: str) -> bool:
        line, words = self.program[0].line, self.program[1:]
        if name != "shifter":
            verbs = [word for word in words if word.text in ("exec", "run", "shell", "instance")]
            if not verbs or verbs[0].text in ("shell", "instance"):
                return False
            if any(word.text == "compose" for word in words[: words.index(verbs[0])]):
                return False  # of a service, whose file names the image
            self.action = verbs[0].text
            words = words[words.index(verbs[0]) + 1 :]
        read_ = programs.read(words, programs.CONTAINERS[name])
        self._add("container", name, line, read_)
        for value in self.container.values("env"):
            self._set(value.split(","))
        if name == "shifter":
            self.image = read_.get("image") or literal(programs.OF_DIRECTIVE, line)
        elif name.endswith("_wrapper"):  # CSC's, which runs in the image of a module
            self.image = literal(f"<image of {name}>", line)
        elif self.program:
            self.image = self.program.pop(0)
        if self.program and is_flag(self.program[0]):
            self.problems.append((line, "what the image's runscript starts is not known"))
        elif self.program and self.action == "run" and programs.is_data(self.program[0].text):
            what = f"what the image's runscript does with {self.program[0].text} is not known"
            self.problems.append((line, what))
        return not read_.problem

    def _set(self, words: Sequence[Word]) -> None:
        for word in words:
            name, *value = word.split("=", 1)
            if value:
                self.env[name.text] = value[0]

    def _agent(self, name: str, used: int) -> bool:
        line = self.program[0].line
        read_ = programs.read(self.program[used:], programs.AGENTS[name])
        self._add("agent", name, line, read_)
        self.bare = name == "composer"
        if self.agent.has("module", "m"):
            self.program.insert(0, literal("-m", line))
        if self.agent.has("no-python"):
            return True
        if self.program and self.program[0].text == "-m":
            self.program.insert(0, literal("python", line))
        return False

    def _python(self) -> bool:
        """Take off what `python -m` starts, and flags before a script."""
        read_ = programs.read(self.program[1:], programs.OPTIONS["python"])
        module = read_.get("m")
        name = programs.LAUNCHERS.get(module.text, module.text) if module else ""
        if module and name in programs.AGENTS:
            if (python := self.program[0]).unknown:
                text = f"{python.text}: the launch takes the Python of its environment"
                self.dropped.append((python.line, text))
            self.program = [module, *read_.rest]
            return self._agent(name, 1)
        if module and name in programs.STARTERS:
            self.program = [module, *read_.rest]
            return self._starter(name)
        if read_.problem or module or read_.has("c") or not read_.rest:
            return False
        if read_.rest[0].text.rpartition("/")[2] in programs.AGENTS:
            self.program = list(read_.rest)  # python $(which torchrun), python /bin/torchrun
            return True
        if all(option.name == "u" for option in read_.options):
            self.program[1:] = read_.rest
        return False

    def _shell(self) -> bool:
        """Read `bash -c '...'` or `bash <<EOF`: the last command in it is the program."""
        words = self.program[1:]
        place = next((n for n, word in enumerate(words) if not is_flag(word)), len(words))
        flags = [word.text for word in words[:place] if not word.text.startswith("--")]
        document = self.command.document if self.starter.name in ("", "srun") else None
        if place == len(words) and document is not None:
            words, place, self.fed = [document], 0, True
        elif place == len(words) or not any("c" in flag[1:] for flag in flags):
            return False
        self.login = "--login" in [word.text for word in words[:place]] or "l" in "".join(flags)
        return self._text(words[place], words[place + 1 :])

    def _ssh(self) -> bool:
        """Read what is started on a node of the job by hand, by the shell there."""
        name, *words = self.program
        host, *words = programs.read(words, programs.OPTIONS["ssh"]).rest or [name]
        if not host.has(ADDRESS) or not words:
            return False
        self.layers.append(Layer(kind="starter", name="ssh", line=name.line))
        return self._text(join(words, " ", name.line), ())

    def _text(self, word: Word, arguments: Sequence[Word]) -> bool:
        """Read the text of a shell, which it gets with arguments."""
        self.layers.append(Layer(kind="shell", name="bash", line=word.line))
        outer, functions = dict(self.env), self.command.functions
        heads = [function.text.removeprefix("function ").split("(")[0] for function in functions]
        if any(head.split()[0] in word.text for head in heads):  # NAME() {, function NAME {
            texts = [piece for function in functions for piece in (*function.pieces, "\n")]
            word = compose((*texts, *word.pieces), functions[0].line)
        more = self._script(word, arguments[1:])
        pieces = (p for n, v in self.env.items() if n not in outer for p in v.unknown)
        decided = any(p.kind == BRANCH and p not in word.unknown for p in pieces)
        others = [command for command in self.inner if command.words != tuple(self.program)]
        if decided or any(map(does_more, others)):
            self.shell = [_for_ranks(word), *arguments]
            agents = programs.AGENTS.keys() & {w.text.rpartition("/")[2] for w in self.program[:4]}
            self.env = self.env if agents or self.agent else outer
        return more

    def _script(self, word: Word, arguments: Sequence[Word]) -> bool:
        """Read the text of `bash -c`; unknown pieces become variables that stand for them."""
        text, names = with_placeholders(word)
        known = {**self.outside.exports, **self.env}
        nodes, facts = self.starter.text("nodes"), self.command.facts
        facts = facts if nodes in ("", facts.get("SLURM_NNODES")) else {}
        scope = Scope({**known, **names}, set(known), list(arguments), facts, per_rank=True)
        content = read_commands(text, scope, word.line - 1)
        self.problems += [(line, "this is not understood") for line in content.faults]
        self.inner = content.commands
        for assignment in content.assignments:
            self.env.setdefault(assignment.name, assignment.value)
        chosen = _last_start(content.commands)
        if chosen is None or not chosen.source:
            self.problems.append((word.line, "no program is recognized in this text"))
            return False
        if not any(assignment.name in programs.PLACE for assignment in content.assignments):
            self.lead = _lead(text, chosen, names)
        self.env.update({**chosen.exports, **chosen.given})
        self.program = list(chosen.words)
        return True

    def _prefix(self, name: str) -> bool:
        """Take off time, env A=1, nice and the like."""
        first, *rest = self.program
        if name == "eval" and rest:
            return self._script(join(rest, " ", first.line), ())
        if name in programs.WITH_OPTIONS:
            rest = list(programs.read(rest, programs.WITH_OPTIONS[name]).rest)
            while name == "env" and rest and "=" in rest[0].start:
                self._set([rest.pop(0)])
        elif name in programs.RUNNING and rest and rest[0].text == "run":
            rest = self._environment(name, rest[1:], first.line)
        elif name == "timeout" and len(rest) > 1:
            limit, *rest = programs.read(rest, programs.OPTIONS["timeout"]).rest or [first]
            self.dropped.append((first.line, f"timeout {limit.text}: --time limits the job"))
        elif name in programs.WRAPPERS and (place := programs.agent_at(rest)) >= 0:
            text = " ".join(word.text for word in (first, *rest[:place]))
            what = "not around the agent, which runner starts; --profile-with is for each rank"
            self.dropped.append((first.line, f"{text}: {what}"))
            rest = rest[place:]
        elif name not in programs.BEFORE:
            return False
        self.program = rest or self.program
        return bool(rest)

    def _environment(self, name: str, words: Sequence[Word], line: int) -> list[Word]:
        """Read the options of `uv run` and the like; return the words behind them."""
        read_ = programs.read(words, programs.RUNNING[name])
        finder = literal(name, line) if name in programs.FINDERS else None
        self.environment = finder or read_.get("name", "prefix")
        self.by_name = read_.has("name")
        if name == "uv":
            self._of_uv(read_, line)
        if self.image is not None:
            self.prefix = self.program[: len(self.program) - len(read_.rest)]
        return list(read_.rest)

    def _of_uv(self, read_: Options, line: int) -> None:
        folder, project = read_.get("directory"), read_.get("project")
        if folder:
            words = (literal("cd", line), folder)
            self.inner.append(replace(self.command, words=words, within=""))
        root = project or folder
        default = compose((*root.pieces, "/.venv"), line) if root else literal("./.venv", line)
        self.environment = self.variables.get("UV_PROJECT_ENVIRONMENT") or default


def _for_ranks(word: Word) -> Word:
    """Return a text in which the shell of each rank expands what it knows too."""
    text, names = with_placeholders(word)
    fixed = " ".join(map(syntax.source, syntax.below(syntax.parse(text), "raw_string")))
    kept = {names[name].pieces[0] for name in names if f"{{{name}}}" in fixed}
    unknown = set(word.unknown) - kept
    on_rank = {p: p.source for p in unknown if p.kind == RUN and known_on_rank(p)}
    pieces = (on_rank.get(p, p) if isinstance(p, Unknown) else p for p in word.pieces)
    return compose(pieces, word.line)


def _lead(text: str, chosen: Command, names: Mapping[str, Word]) -> list[Piece]:
    """Return what stands before the last command of a text; nothing where more follows it."""
    before, _, after = text.rpartition(chosen.source)
    if chosen.conditions or after.strip(" \t\n;"):
        return []
    return restored(before, names)


def _last_start(commands: Sequence[Command]) -> Command | None:
    """Return the last command of a text that is a training, or else more than a preparation."""
    idle = programs.PREPARING | programs.LOOKING | programs.FILTERS
    chosen = [command for command in commands if not command.within and command.name not in idle]
    best = [c for c in chosen if starts_training(unwrap(c))] or chosen or commands
    return best[-1] if best else None
