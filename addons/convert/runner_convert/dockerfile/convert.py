"""Turns a Dockerfile into a definition. What has no counterpart in Apptainer becomes a note."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from containers import definition
from runners.core import machine
from runners.core.errors import UsageError

from ..line_diagnosis import LineDiagnosis
from .copies import USER_BASE
from .definition_quoting import OF_BASE, PLACEHOLDER, placeholder, with_arguments
from .parse import SHELL, Instruction, pairs, parse, plain, shell, words
from .reader import OF_SHELL
from .runs import Runs
from .sections import sections
from .stage import Stage

VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)([^}]*)\})")  # its name, and an operator
LOST = {
    "EXPOSE": "a container has the network of its host: nothing to do",
    "STOPSIGNAL": "choose the signal where the program is stopped: scancel --signal",
    "HEALTHCHECK": "write a %test section that proves the image: apptainer test runs it",
    "ONBUILD": "nothing that starts from this image or stage runs it: write it after their FROM",
}
READ_ONLY = "read-only in bash: where sh is bash, %post has root's own, as UID 0"
# What ENV sets, but not for who runs the image.
BUILDING = dict.fromkeys(OF_SHELL, f"{READ_ONLY}; it is not set when the image runs")
BUILDING["HOME"] = "set while it is built; who runs the image has another home"
ROOTS_HOME = "who runs the image cannot write there: give it another folder"
ACTIVATES = "MAMBA_DOCKERFILE_ACTIVATE"
OF_BASE_SHELL = 'write SHELL ["/usr/local/bin/_dockerfile_shell.sh"] before it'
USER = "in Apptainer everybody stays who they are outside; what follows runs as root in %post"


class Converter(Runs):
    """Reads the instructions one after the other."""

    def __init__(self, dockerfile: Path, left_out: str) -> None:
        super().__init__(dockerfile, left_out)
        self.globals = _automatic()  # the values of the arguments before all stages
        self.automatic = frozenset(self.globals)
        self.texts: dict[str, str] = {}  # their defaults as they are written

    def read(self, item: Instruction) -> None:
        """One instruction, by the method with its name."""
        method = getattr(self, f"read_{item.word.lower()}", None)
        if item.word == "ARG" and not self.stages:
            self._global(item)
        elif item.word in LOST:
            if item.flat.upper() != "NONE":
                self.note(item, f"{item.word} {item.flat}", LOST[item.word])
        elif method:
            method(item)
        else:
            self.note(item, f"{item.word} is not known", "write what it does into %post")

    def _arguments(self, item: Instruction) -> list[str]:
        """The arguments of ARG, without what is meant as a comment: to Docker, more arguments."""
        arguments = words(item.flat)
        if "#" not in arguments:
            return arguments
        self.note(item, f"ARG {item.flat}", "what follows the # is left out")
        return arguments[: arguments.index("#")]

    def _global(self, item: Instruction) -> None:
        for word in self._arguments(item):
            name, equals, value = word.partition("=")
            if equals:
                self.globals[name] = self.expand(item, shell(value), self.globals)
                self.texts[name] = value

    def read_from(self, item: Instruction) -> None:
        parts = item.flat.split()
        if len(parts) not in (1, 3) or (len(parts) == 3 and parts[1].lower() != "as"):
            raise UsageError(
                f"line {item.line}: not FROM IMAGE or FROM IMAGE AS NAME",
                item.flat,
                id="from-line-malformed",
            )
        name = parts[2] if len(parts) > 2 else f"stage{len(self.stages)}"
        for flag, value in item.flags:
            self.note(item, f"--{flag}={value}", "an image is built for the machine it is built on")
        base = plain(shell(self._base(item, parts[0])))
        earlier = self.named(base)
        if earlier is None:
            self._refuse_choice(item, base)
            self.stages.append(Stage(name, base, (item.line,)))
            return
        self.note(item, f"FROM {base}, a stage", "the lines of that stage are repeated")
        lines = (*earlier.lines, item.line)
        self.stages.append(replace(deepcopy(earlier), name=name, lines=lines))

    def _refuse_choice(self, item: Instruction, base: str) -> None:
        """Refuse an argument that chooses a stage: what a definition gets by it is an image."""
        parts = PLACEHOLDER.split(base)[::2]
        pattern = ".*".join(map(re.escape, parts))
        names = [
            stage.name for stage in self.stages if re.fullmatch(pattern, stage.name, re.IGNORECASE)
        ]
        if len(parts) > 1 and any(parts) and names:
            what = f"line {item.line}: FROM {item.flat}: an argument without a default chooses"
            names_it = ", ".join(f"ARG {name}=..." for name in PLACEHOLDER.findall(base))
            raise UsageError(
                f"{what} one of the stages {', '.join(names)}",
                f"write {names_it}",
                id="stage-undecided",
            )

    def _base(self, item: Instruction, text: str) -> str:
        def missing(name: str) -> str:
            self.note(item, f"ARG {name} has no default", f"--build-arg {name}=...")
            return placeholder(name)

        names = {bare or name for bare, name, more in VARIABLE.findall(text) if not more}
        for name in self._written(text):
            what = f"ARG {name} is written into From, with its default"
            self.note(item, what, f"--build-arg {name}=... does not change the base")
        unknown = {name: missing(name) for name in names - set(self.globals)}
        return self.expand(item, text, {**self.globals, **unknown})

    def _written(self, text: str, of: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield the arguments whose defaults are in a FROM line, also those of these defaults."""
        for bare, name, more in VARIABLE.findall(text):
            name = bare or name
            if name not in {*self.automatic, *of} and (name in self.globals or more):
                yield name
                yield from self._written(self.texts.get(name, ""), (*of, name))

    def read_arg(self, item: Instruction) -> None:
        for word in self._arguments(item):
            name, equals, text = word.partition("=")
            self._of_micromamba(item, name)
            default = shell(text) if equals else self.globals.get(name)
            value = self.expand(item, default or "", self.known())
            self._note_argument(item, name, default, plain(value))
            # ENV has set it for good, or no shell knows it.
            if name not in self.stage.variables and name.isidentifier():
                self._set_argument(item, name, value, bool(equals), default is None)

    def _note_argument(self, item: Instruction, name: str, default: str | None, text: str) -> None:
        """Say what of an argument, `text` as it is now, a build cannot be given."""
        stage = self.stage
        if default is None and name not in {**stage.arguments, **stage.variables}:
            self.note(item, f"ARG {name} has no default", f"--build-arg {name}=...")
        for argument in stage.arguments:
            if re.search(rf"\$\{{?{re.escape(argument)}\b", default or ""):
                what = f"ARG {name} is '{text}', of the default of ARG {argument}"
                self.note(item, what, f"--build-arg {argument}=... does not change it")

    def _set_argument(
        self, item: Instruction, name: str, value: str, given: bool, no_default: bool
    ) -> None:
        stage = self.stage
        if no_default and name in stage.arguments:
            return  # it has the value of before
        if given and stage.arguments.get(name, value) != value:
            what = f"ARG {name} has another default before"
            self.note(item, what, f"--build-arg {name}=... does not change it from here on")
            stage.variables[name] = value
            self.export(name, value)
            return
        stage.arguments[name] = value
        if name in OF_SHELL:
            self.note(item, f"ARG {name}", READ_ONLY)
        self.export(name, placeholder(name), unless_empty=no_default)

    def read_env(self, item: Instruction) -> None:
        stage, values = self.stage, {}
        for name, value in pairs(item.flat):
            values[name] = self.in_shell(item, value)  # with the variables from before this line
            self._of_micromamba(item, name)
        while values:
            name = next((n for n in values if not _is_named(n, values)), next(iter(values)))
            text = values.pop(name)
            if name == "PIP_USER" and not self.has_user_base:
                self.note(item, name, "left out, so that all users have the packages")
                continue
            if name in BUILDING:
                self.note(item, name, BUILDING[name])
            else:
                if text.startswith("/root/") and ":" not in text:
                    self.note(item, f"{name}={text}", ROOTS_HOME)
                stage.environ.append(f'export {name}="{text}"')
            stage.variables[name] = text
            self.export(name, text)

    def _of_micromamba(self, item: Instruction, name: str) -> None:
        """Say where the SHELL of a base, which is not known here, activates an environment."""
        if name == ACTIVATES and self.stage.shell == SHELL:
            self.note(
                item, f"{name}: the SHELL of micromamba's images reads it, not sh", OF_BASE_SHELL
            )

    def read_label(self, item: Instruction) -> None:
        for name, value in pairs(item.flat):
            text = " ".join(self.static(item, value).split())
            self.stage.labels.append((self.static(item, shell(name)), text))

    def read_maintainer(self, item: Instruction) -> None:
        self.stage.labels.append(("org.opencontainers.image.authors", item.flat))

    def read_shell(self, item: Instruction) -> None:
        self.stage.shell = tuple(item.command())

    def read_user(self, item: Instruction) -> None:
        if item.flat not in ("root", "0", "root:root", "0:0"):
            self.note(item, f"USER {item.flat}", USER)
        user = self.static(item, shell(item.flat), in_post=True).partition(":")[0]
        self.stage.install.append(f"HOME=$(home {with_arguments(user)}); HOME=${{HOME:-/}}")

    def read_volume(self, item: Instruction) -> None:
        self.note(item, f"VOLUME {item.flat}", "bind a folder when it runs: --bind DIR:/volume")
        for word in item.listed() or map(shell, words(item.flat)):
            if not self.stage.bare:
                self.post(f"mkdir -p {with_arguments(self.static(item, word))}")

    def read_workdir(self, item: Instruction) -> None:
        stage = self.stage
        path = self.static(item, shell(item.flat), in_post=not stage.bare)
        if not path.startswith(("/", "{{", OF_BASE)) and not stage.knows_folder:
            what = f"WORKDIR {path} without one before it"
            self.note(item, what, "here it is below /; Docker takes the base's working directory")
        stage.folder, stage.has_folder = self.below(path), True
        if not stage.bare:
            self.post(f"mkdir -p {with_arguments(stage.folder)}")
            self.post(f"cd {with_arguments(stage.folder)}")

    def read_entrypoint(self, item: Instruction) -> None:
        stage = self.stage
        stage.entrypoint = item.command(stage.shell)
        if not stage.has_command:
            stage.command = None  # that of the stage from which this one starts

    def read_cmd(self, item: Instruction) -> None:
        self.stage.command = item.command(self.stage.shell)
        self.stage.has_command = True


def _automatic() -> dict[str, str]:
    """The values of the ARGs that Docker's builder sets by itself."""
    kind = machine.architecture()
    values = {"OS": "linux", "ARCH": kind, "PLATFORM": f"linux/{kind}", "VARIANT": ""}
    return {f"{of}{name}": values[name] for of in ("TARGET", "BUILD") for name in values}


def _is_named(name: str, values: Mapping[str, str]) -> bool:
    """Whether another value names a variable; it is exported before, with the value of before."""
    named = re.compile(rf"(?<!\\)\$\{{?{re.escape(name)}\b")
    return any(named.search(text) for other_name, text in values.items() if other_name != name)


class Converted(NamedTuple):
    """A definition, what is missing in it, and why Apptainer would refuse it, "" if it does not."""

    text: str
    notes: list[LineDiagnosis]
    refused: str


def convert(path: Path, text: str, target: str = "", name: str = "") -> Converted:
    """Return the definition of a Dockerfile.

    `target` is the stage to end with, "" for the last; `name` is that of the definition, which no
    COPY takes with it. Raises UsageError when it is no Dockerfile, or has no such stage.
    """
    reader = Converter(path.absolute(), name)
    items = parse(text, path.name)
    reader.has_user_base = any(USER_BASE.search(item.flat) for item in items if item.flags)
    for item in items:
        if item.word == "FROM" and target and reader.named(target):
            break
        if item.word not in ("ARG", "FROM") and not reader.stages:
            reader.note(item, f"{item.word} before FROM", "it belongs to no image")
        else:
            reader.read(item)
    if target and reader.named(target) is not reader.stage:
        raise UsageError(f"{path.name} has no stage {target}", id="stage-missing")
    stages, last = reader.needed(), reader.stage
    parts = [part for stage in stages for part in sections(stage, len(stages) > 1, stage is last)]
    made = "\n\n".join(map("\n".join, parts)) + "\n"
    return Converted(made, reader.notes_in_use(), _refused(made, name or "the definition"))


def _refused(text: str, name: str) -> str:
    try:
        definition.check(text, name, {})
    except UsageError as error:
        return str(error)
    return ""
