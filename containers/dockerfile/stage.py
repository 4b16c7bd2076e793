"""What is known of the stages of a Dockerfile while it is read, and of their variables."""

from __future__ import annotations

import os
import re
import shlex
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runners.core import machine

from .ignore import Ignored
from .parse import SHELL, Instruction, plain
from .variables import apply, substitute

PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
# What is no text to Apptainer, but a section, a stage or a build argument.
NO_TEXT = re.compile(r"^[ \t]*%|^bootstrap:|\{\{\s*\w+\s*\}\}", re.MULTILINE | re.IGNORECASE)
OPEN = re.compile(r"\{\{(?=\s*\w+\s*\}\})")
HIDDEN = "{\0{"  # stands for the braces of what is no argument, until it is quoted
OF_BASE = "\0$"  # stands for the $ of a variable that only the base may have set
# Images without a shell: nothing can be run in them.
BARE = re.compile(r"^scratch$|distroless|^cgr\.dev/chainguard/(?!.*-dev)")
# Bases without a working directory of their own.
AT_ROOT = re.compile(
    r"^(?:docker\.io/)?(?:library/)?(?:ubuntu|debian|python|alpine|fedora|almalinux|rockylinux|centos"
    r"|amazonlinux|bash|gcc|rust|scratch)(?:[:@]|$)|nvidia/(?:cuda|opengl)|conda|rocm/dev|mambaorg"
)
OF_SHELL = ("UID", "EUID", "PPID")  # read-only in bash, which fails where sh is bash
STAGED = "/.copied"  # where files lie in an image until %post puts them in their places


@dataclass(frozen=True)
class Note:
    """What could not be converted, and what to do; `line` is the Dockerfile's."""

    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}: {self.remedy}"


@dataclass
class Stage:
    """One image of the Dockerfile."""

    name: str
    base: str
    lines: tuple[int, ...] = ()  # of FROM, its own and those of the stages that it starts from
    arguments: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)  # run on the building machine
    files: list[tuple[str, str]] = field(default_factory=list)
    layers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by stage
    labels: list[tuple[str, str]] = field(default_factory=list)
    install: list[str] = field(default_factory=list)
    environ: list[str] = field(default_factory=list)
    folder: str = "/"
    has_folder: bool = False
    shell: tuple[str, ...] = SHELL
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    has_command: bool = False  # of its own, not of the stage that it starts from
    works: bool = False  # whether anything is done in %post
    copies: int = 0

    @property
    def knows_folder(self) -> bool:
        """Whether the working directory is known: that of WORKDIR, or / of a plain base."""
        return self.has_folder or bool(AT_ROOT.search(self.base))

    @property
    def bare(self) -> bool:
        """Whether there is no shell to run commands in."""
        return bool(BARE.search(self.base)) and not self.works


class Reader:
    """Stages, notes and variables."""

    def __init__(self, dockerfile: Path, left_out: str = "") -> None:
        self.context = dockerfile.parent
        self.ignored = Ignored.read(dockerfile)
        self.left_out = left_out  # the definition, which Docker does not know
        self.notes: list[Note] = []
        self.stages: list[Stage] = []
        self.outside: list[Stage] = []  # images that only files are taken from
        self.has_user_base = False  # whether a stage takes what pip installed for a user

    @property
    def stage(self) -> Stage:
        return self.stages[-1]

    def named(self, name: str) -> Stage | None:
        """An earlier stage by its name, whose case does not matter; the last of that name."""
        same = (one for one in reversed(self.stages) if one.name.lower() == name.lower())
        return next(same, None)

    def needed(self) -> list[Stage]:
        """The stages that the last one is made from, and itself, in their order."""
        every = [*self.outside, *self.stages]
        names: set[str] = set()
        new = {self.stage.name}
        while new:
            names |= new
            new = {name for stage in every if stage.name in new for name in stage.layers} - names
        return [stage for stage in every if stage.name in names]

    def notes_in_use(self) -> list[Note]:
        """Those of the needed stages, and of what is before all stages, by line."""
        used = {line for stage in self.needed() for line in stage.lines}
        unused = {line for stage in self.stages for line in stage.lines} - used
        starts = sorted({0, *used, *unused})
        notes = sorted(self.notes, key=lambda note: note.line)
        return [one for one in notes if starts[bisect(starts, one.line) - 1] not in unused]

    def post(self, text: str) -> None:
        """Add a command to %post."""
        self.stage.install.append(text)
        self.stage.works = True

    def export(self, name: str, text: str, unless_empty: bool = False) -> None:
        guard = '[ "${BASH_VERSION-}" ] || ' if name in OF_SHELL else ""
        guard += f'[ ! "{text}" ] || ' if unless_empty else ""  # the base may have a value
        self.stage.install.append(f'{guard}export {name}="{text}"')

    def note(self, item: Instruction, what: str, remedy: str) -> None:
        made = Note(item.line, what, remedy)
        if made not in self.notes:
            self.notes.append(made)

    def expand(self, item: Instruction, text: str, known: Mapping[str, str]) -> str:
        """The text with the variables that are known; a note for others."""

        def value(name: str, operator: str, word: str) -> str | None:
            if operator:
                return apply(known.get(name), operator, word)
            if name not in known:
                self.note(item, f"${name} has no value here", "write the value into the definition")
            return known.get(name)

        return substitute(text, value)

    def in_shell(self, item: Instruction, text: str) -> str:
        """A value of ENV as it is exported; what the base has set is known to the shell alone."""
        return self._substituted(item, OPEN.sub('{""{', text), in_shell=True)

    def static(self, item: Instruction, text: str, in_post: bool = False) -> str:
        """A path or label as it is: arguments by name, variables by value.

        `in_post`: it becomes a word of a command there, whose shell knows what the base has set.
        """
        return plain(self._substituted(item, text, in_shell=False, in_post=in_post))

    def _substituted(
        self, item: Instruction, text: str, in_shell: bool, in_post: bool = False
    ) -> str:
        here = self.stage

        def value(name: str, operator: str, word: str) -> str | None:
            known = here.variables.get(name)
            if known is None and name in here.arguments:
                return self._of_argument(item, name, operator, word)
            if in_shell and (known is None or re.search(r"(?<!\\)\$", known)):
                return self._left_to_the_shell(item, name, operator, word)
            # HOME in %post is root's, whatever the base says.
            if known is None and in_post and name != "HOME" and not operator:
                what = f"${name} is not set in this Dockerfile"
                self.note(item, what, "the base's value is taken")
                return f"{OF_BASE}{{{name}}}"
            settled = None if known is None else self.expand(item, known, {})
            if known is None:
                self.note(item, f"${name} has no value here", "write the value into the definition")
            return apply(settled, operator, word) if operator else settled

        return substitute(text, value)

    def _of_argument(self, item: Instruction, name: str, operator: str, word: str) -> str:
        """The argument by its name; where an operator looks at its value, what that comes to."""
        default = self.stage.arguments[name]
        if not operator or (operator in (":-", "-") and default):
            return placeholder(name)
        made = apply(default or None, operator, word)
        what = f"${{{name}{operator}...}} is '{plain(made)}', of the default of ARG {name}"
        self.note(item, what, f"--build-arg {name}=... does not change it")
        return made

    def _left_to_the_shell(
        self, item: Instruction, name: str, operator: str, word: str
    ) -> str | None:
        if operator.startswith("/"):
            self.note(item, f"${{{name}{operator}...}}", "write the value into the definition")
            return None
        if name not in self.stage.variables and name != "PATH":
            what = f"${name} is not set in this Dockerfile"
            self.note(item, what, "the base's value is taken, else that of who runs the image")
        return f"${{{name}{operator}{word}}}" if operator else None

    def below(self, path: str) -> str:
        """A path in the image, from the working directory."""
        arguments = self.stage.arguments
        known = PLACEHOLDER.sub(lambda match: arguments.get(match[1], ""), path)
        folder = "" if known.startswith(("/", OF_BASE)) else f"{self.stage.folder}/"
        return re.sub("^//", "/", os.path.normpath(folder + path))

    def is_inside(self, path: str) -> bool:
        """Whether a path of the context is in its folder, links followed."""
        root = os.path.realpath(self.context)
        real = os.path.realpath(self.context / path)
        return os.path.commonpath([root, real]) == root


def placeholder(name: str) -> str:
    return "{{ " + name + " }}"


def automatic() -> dict[str, str]:
    """The values of the ARGs that Docker's builder sets by itself."""
    here = machine.architecture()
    values = {"OS": "linux", "ARCH": here, "PLATFORM": f"linux/{here}", "VARIANT": ""}
    return {f"{of}{name}": values[name] for of in ("TARGET", "BUILD") for name in values}


def quoted(text: str) -> str:
    """One word of a shell that Apptainer takes for text too."""
    return with_arguments(OPEN.sub(HIDDEN, text))


def with_arguments(text: str) -> str:
    """The same of a text in which {{ NAME }} is an argument of the build.

    In single quotes two more are nothing to the shell, and no line begins with % then.
    """
    if OF_BASE in text:
        word = re.sub(r'([$`"\\])', r"\\\1", text).replace("\0\\$", "$")
        return f'"{word}"'.replace(HIDDEN, '{""{')
    word = shlex.quote(text)
    word = re.sub(r"^([ \t]*)(%|bootstrap:)", r"\1''\2", word, flags=re.MULTILINE | re.IGNORECASE)
    return word.replace(HIDDEN, "{''{")


def joined(words: list[str]) -> str:
    return " ".join(map(quoted, words))
