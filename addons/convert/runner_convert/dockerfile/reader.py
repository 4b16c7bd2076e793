"""What the readers of all instructions share: stages, notes, and the values of variables."""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Mapping
from pathlib import Path

from ..line_diagnosis import LineDiagnosis
from .definition_quoting import OF_BASE, OPEN, PLACEHOLDER, placeholder
from .ignore import Ignored
from .parse import Instruction, plain
from .stage import Stage, note
from .variable_substitution import apply, substitute

OF_SHELL = ("UID", "EUID", "PPID")  # read-only in bash, which fails where sh is bash
NO_VALUE = "write the value into the definition"


class Reader:
    """The state while a Dockerfile is read; classes below it read the instructions."""

    def __init__(self, dockerfile: Path, left_out: str) -> None:
        self.context = dockerfile.parent
        self.ignored = Ignored.read(dockerfile)
        self.left_out = left_out  # the definition, which Docker does not know
        self.notes: list[LineDiagnosis] = []
        self.stages: list[Stage] = []
        self.outside: list[Stage] = []  # images that only files are taken from
        self.has_user_base = False  # whether a stage takes what pip installed for a user

    @property
    def stage(self) -> Stage:
        return self.stages[-1]

    def named(self, name: str) -> Stage | None:
        """An earlier stage by its name, whose case does not matter; the last of that name."""
        same = (stage for stage in reversed(self.stages) if stage.name.lower() == name.lower())
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

    def notes_in_use(self) -> list[LineDiagnosis]:
        """Those of the needed stages, and of what is before all stages, by line."""
        used = {line for stage in self.needed() for line in stage.lines}
        unused = {line for stage in self.stages for line in stage.lines} - used
        starts = sorted({0, *used, *unused})
        notes = sorted(self.notes, key=lambda note: note.line)
        return [note for note in notes if starts[bisect(starts, note.line) - 1] not in unused]

    def post(self, text: str) -> None:
        """Add a command to %post."""
        self.stage.install.append(text)
        self.stage.works = True

    def export(self, name: str, text: str, unless_empty: bool = False) -> None:
        guard = '[ "${BASH_VERSION-}" ] || ' if name in OF_SHELL else ""
        guard += f'[ ! "{text}" ] || ' if unless_empty else ""  # the base may have a value
        self.stage.install.append(f'{guard}export {name}="{text}"')

    def note(self, item: Instruction, what: str, remedy: str) -> None:
        told = note(f"{item.word.lower()}-not-converted", item.line, what, remedy)
        if told not in self.notes:
            self.notes.append(told)

    def expand(self, item: Instruction, text: str, known: Mapping[str, str]) -> str:
        """The text with the variables that are known; a note for others."""

        def value(name: str, operator: str, word: str) -> str | None:
            if operator:
                return apply(known.get(name), operator, word)
            if name not in known:
                self.note(item, f"${name} has no value here", NO_VALUE)
            return known.get(name)

        return substitute(text, value)

    def in_shell(self, item: Instruction, text: str) -> str:
        """A value of ENV as it is exported; what the base has set is known to the shell alone."""

        def value(name: str, operator: str, word: str) -> str | None:
            known = self.stage.variables.get(name)
            if known is None and name in self.stage.arguments:
                return self._of_argument(item, name, operator, word)
            if known is None or re.search(r"(?<!\\)\$", known):
                return self._left_to_the_shell(item, name, operator, word)
            return apply(known, operator, word) if operator else known

        return substitute(OPEN.sub('{""{', text), value)

    def static(self, item: Instruction, text: str, in_post: bool = False) -> str:
        """A path or label as it is: arguments by name, variables by value.

        `in_post`: it becomes a word of a command there, whose shell knows what the base has set.
        """

        def value(name: str, operator: str, word: str) -> str | None:
            known = self.stage.variables.get(name)
            if known is not None:
                known = self.expand(item, known, {})
            elif name in self.stage.arguments:
                return self._of_argument(item, name, operator, word)
            elif in_post and name != "HOME" and not operator:  # there HOME is root's, always
                what = f"${name} is not set in this Dockerfile"
                self.note(item, what, "the base's value is taken")
                return f"{OF_BASE}{{{name}}}"
            else:
                self.note(item, f"${name} has no value here", NO_VALUE)
            return apply(known, operator, word) if operator else known

        return plain(substitute(text, value))

    def _of_argument(self, item: Instruction, name: str, operator: str, word: str) -> str:
        """The argument by its name; where an operator looks at its value, what that comes to."""
        default = self.stage.arguments[name]
        if not operator or (operator in (":-", "-") and default):
            return placeholder(name)
        text = apply(default or None, operator, word)
        what = f"${{{name}{operator}...}} is '{plain(text)}', of the default of ARG {name}"
        self.note(item, what, f"--build-arg {name}=... does not change it")
        return text

    def _left_to_the_shell(
        self, item: Instruction, name: str, operator: str, word: str
    ) -> str | None:
        if operator.startswith("/"):
            self.note(item, f"${{{name}{operator}...}}", NO_VALUE)
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
