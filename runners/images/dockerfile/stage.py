"""What is known of one stage of a Dockerfile while it is read, and what its texts mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core import architecture
from .. import spython_adapter
from .parse import SHELL, Instruction

VARIABLE = re.compile(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))")
# ${NAME:-word} and the like, which have no counterpart for an ARG
ODD_VARIABLE = re.compile(r"(?<!\\)\$\{(\w+)[^}\w]")


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
    recipe: Any = field(default_factory=spython_adapter.recipe)
    arguments: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    shell: tuple[str, ...] = SHELL
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    ran: bool = False
    uses: set[str] = field(default_factory=set)  # the stages it has files from

    def continued(self, name: str) -> Stage:
        """Another stage that starts where this one ends."""
        return replace(
            self,
            name=name,
            recipe=deepcopy(self.recipe),
            arguments=dict(self.arguments),
            variables=dict(self.variables),
            uses=set(self.uses),
        )


class Reader:
    """Stages and notes."""

    def __init__(self, context: Path) -> None:
        self.context = context
        self.notes: list[Note] = []
        self.stages: list[Stage] = []
        self.outside: list[Stage] = []  # images that only files are taken from

    @property
    def stage(self) -> Stage:
        """The one that is being read."""
        return self.stages[-1]

    def named(self, name: str) -> Stage | None:
        """An earlier stage, by name or number."""
        for number, stage in enumerate(self.stages):
            if name in (stage.name, str(number)):
                return stage
        return None

    def needed(self) -> list[Stage]:
        """The stages that the last one is made from, and itself, in their order."""
        every = [*self.outside, *self.stages]
        names: set[str] = set()
        new = {self.stage.name}
        while new:
            names |= new
            new = {name for stage in every if stage.name in new for name in stage.uses} - names
        return [stage for stage in every if stage.name in names]

    def post(self, text: str) -> None:
        """Add to what the stage runs."""
        self.stage.recipe.install.append(text)

    def note(self, item: Instruction, what: str, remedy: str) -> None:
        """Remember what was lost."""
        self.notes.append(Note(item.line, what, remedy))

    def expand(self, item: Instruction, text: str, known: Mapping[str, str]) -> str:
        """The text with the variables that are known; a note for others."""

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name not in known:
                self.note(item, f"${name} has no value here", "write the value into the definition")
            return known.get(name, match[0])

        return VARIABLE.sub(value, text)

    def with_arguments(self, item: Instruction, text: str) -> str:
        """The text with {{ NAME }} for each ARG, which has a value only while it is built."""
        for match in ODD_VARIABLE.finditer(text):
            if match[1] in self.stage.arguments:
                self.note(item, f"{match[0]}...}}", f"write {placeholder(match[1])} in its place")

        def argument(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            return placeholder(name) if name in self.stage.arguments else match[0]

        return VARIABLE.sub(argument, text)

    def static(self, item: Instruction, text: str) -> str:
        """A path or label: arguments by name, variables by value."""
        return self.expand(item, self.with_arguments(item, text), self.stage.variables)


def placeholder(name: str) -> str:
    """A build argument in a definition."""
    return "{{ " + name + " }}"


def automatic(name: str) -> str | None:
    """The value of an ARG that Docker's builder sets by itself."""
    here = architecture.architecture()
    known = {"OS": "linux", "ARCH": here, "PLATFORM": f"linux/{here}"}
    for which in ("TARGET", "BUILD"):
        if name.startswith(which):
            return known.get(name[len(which) :])
    return None
