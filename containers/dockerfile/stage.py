"""What is known of the stages of a Dockerfile while it is read, and the files they are given.

COPY and ADD are said below %files, before anything is run.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from runners.core import machine
from runners.core.errors import Refused

from .parse import HEREDOC, SHELL, Instruction, shell, words

VARIABLE = re.compile(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))")
# ${NAME:-word} and the like, which have no counterpart for an ARG
ODD_VARIABLE = re.compile(r"(?<!\\)\$\{(\w+)[^}\w]")
PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
ARCHIVE = re.compile(r"\.(?:tar|tar\.\w+|tgz|tbz2?|txz)$")
UNPACK = "/opt/.added"  # where archives lie until they are unpacked


@dataclass(frozen=True)
class Note:
    """What could not be converted, and what to do; `line` is the Dockerfile's."""

    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}: {self.remedy}"


def _recipe() -> Any:
    """An empty Recipe of spython, to be filled with what one stage of a Dockerfile says."""
    from spython.main.parse.recipe import Recipe

    return Recipe()


@dataclass
class Stage:
    """One image of the Dockerfile."""

    name: str
    base: str
    recipe: Any = field(default_factory=_recipe)
    arguments: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    shell: tuple[str, ...] = SHELL
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    ran: bool = False
    uses: set[str] = field(default_factory=set)  # the stages it has files from


class Reader:
    """Stages and notes; reads the instructions that bring files."""

    def __init__(self, context: Path) -> None:
        self.context = context
        self.notes: list[Note] = []
        self.stages: list[Stage] = []
        self.outside: list[Stage] = []  # images that only files are taken from
        self.copied_late: Instruction | None = None

    @property
    def stage(self) -> Stage:
        return self.stages[-1]

    def named(self, name: str) -> Stage | None:
        """An earlier stage, by name or number."""
        numbered = enumerate(self.stages)
        return next((stage for n, stage in numbered if name in (stage.name, str(n))), None)

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
        self.stage.recipe.install.append(text)

    def note(self, item: Instruction, what: str, remedy: str) -> None:
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

    def read_add(self, item: Instruction) -> None:
        """ADD: files, archives to unpack, addresses to fetch."""
        paths = self._paths(item)
        if len(paths) < 2 or not any(fetched(path) or unpacked(path) for path in paths[:-1]):
            self.read_copy(item)
            return
        for source in paths[:-1]:
            self._add_one(item, source, self._target(paths[-1]))

    def _add_one(self, item: Instruction, source: str, target: str) -> None:
        if source.endswith(".git") or source.startswith("git@"):
            self.note(item, f"ADD {source}", "write 'git clone' into %post")
        elif fetched(source):
            self._fetch(source, target)
            self.note(item, f"ADD {source}", "%post fetches it with curl, which the base must have")
        elif unpacked(source):
            self._in_context(item, source)
            there = f"{UNPACK}/{PurePosixPath(source).name}"
            self._file(source, there)
            into = shlex.quote(target)
            self.post(f"mkdir -p {into} && tar -xf {there} -C {into} && rm {there}")
        else:
            self._in_context(item, source)
            self._file(source, target)

    def _fetch(self, source: str, target: str) -> None:
        file = target + source.rpartition("/")[2] if target.endswith("/") else target
        folder = shlex.quote(str(PurePosixPath(file).parent))
        self.post(f"mkdir -p {folder} && curl -fsSL {shlex.quote(source)} -o {shlex.quote(file)}")

    def read_copy(self, item: Instruction) -> None:
        """COPY: from beside the Dockerfile, from a stage or image, or the text that follows."""
        origin, paths = dict(item.flags).get("from"), self._paths(item)
        if len(paths) < (1 if item.bodies else 2):
            self.note(item, f"{item.word} {item.flat}", "it names no target; write it below %files")
            return
        target = self._target(paths[-1])
        if item.bodies:
            self._write(item, target)
        elif origin is None:
            self._from_here(item, paths[:-1], target)
        else:
            self._from_stage(item, origin, paths[:-1], target)
        self._flags(item, target)

    def _write(self, item: Instruction, target: str) -> None:
        path = shlex.quote(target)
        matches = list(HEREDOC.finditer(item.text))
        folder = shlex.quote(str(PurePosixPath(target).parent))
        start = f"mkdir -p {folder}\n    cat > {path} {matches[0][0]}"
        self.post(f"{start}\n{item.bodies[0]}\n{matches[0][2]}")
        if len(matches) > 1:
            self.note(item, "several texts in one COPY", "write the others into %post")

    def _from_here(self, item: Instruction, sources: list[str], target: str) -> None:
        if self.stage.ran and self.copied_late is None:
            self.copied_late = item
        for source in sources:
            path = source.strip("/") or "."
            if not self._in_context(item, path):
                self.note(item, f"{source} is not beside the Dockerfile", "it must be when built")
            # COPY takes what is in a folder, %files the folder.
            inside = "/." if (self.context / path).is_dir() else ""
            self._file(path + inside, target)
            if inside and (self.context / ".dockerignore").exists():
                self.note(item, f"COPY {source}", ".dockerignore is not heard: all of it is copied")

    def _in_context(self, item: Instruction, path: str) -> bool:
        """Whether files are beside the Dockerfile; raise Refused for what is outside of there."""
        known = PLACEHOLDER.sub(lambda match: self.stage.arguments.get(match[1], ""), path)
        whole = str(self.context / known.strip("/"))
        matches = glob.glob(whole)
        if outside := first_outside(self.context, [whole, *matches]):
            raise Refused(
                f"line {item.line}: {item.word} {path} leads out of the Dockerfile's folder",
                outside,
                "put a copy of the file beside the Dockerfile",
            )
        return bool(matches)

    def _from_stage(self, item: Instruction, origin: str, sources: list[str], target: str) -> None:
        found = self.named(origin) or self._image(origin)
        self.stage.uses.add(found.name)
        for source in sources:
            self._file(source, target, found.name)
            same = PurePosixPath(source).name == PurePosixPath(target).name
            if not same and not target.endswith("/"):
                folder = f"{source.rstrip('/')}/."
                said = f"COPY --from={origin} {source} {target}"
                self.note(item, said, f"if it is a folder, write {folder} below %files")

    def _image(self, name: str) -> Stage:
        for stage in self.outside:
            if stage.base == name:
                return stage
        self.outside.append(Stage(f"image{len(self.outside)}", name))
        return self.outside[-1]

    def _flags(self, item: Instruction, target: str) -> None:
        for flag, value in item.flags:
            if flag == "chmod":
                self.post(f"chmod -R {shlex.quote(value)} {shlex.quote(target)}")
            elif flag == "chown":
                self.note(item, f"--chown={value}", "whoever runs the image is its only user")
            elif flag not in ("from", "link"):
                self.note(item, f"{item.word} --{flag}", "name the files one by one below %files")

    def _paths(self, item: Instruction) -> list[str]:
        listed = item.listed()
        found = [shell(word) for word in words(item.flat)] if listed is None else listed
        return [self.static(item, word) for word in found if not word.startswith("<<")]

    def _target(self, path: str) -> str:
        joined = str(PurePosixPath(self.stage.folder) / path)
        return joined.rstrip("/") + "/" if path.endswith("/") or path == "." else joined

    def _file(self, source: str, target: str, layer: str = "") -> None:
        recipe = self.stage.recipe
        pairs = recipe.layer_files.setdefault(layer, []) if layer else recipe.files
        pairs.append([f'"{path}"' if " " in path else path for path in (source, target)])


def placeholder(name: str) -> str:
    return "{{ " + name + " }}"


def automatic(name: str) -> str | None:
    """The value of an ARG that Docker's builder sets by itself."""
    here = machine.architecture()
    known = {"OS": "linux", "ARCH": here, "PLATFORM": f"linux/{here}"}
    which = re.match("TARGET|BUILD", name)
    return known.get(name[which.end() :]) if which else None


def fetched(source: str) -> bool:
    return source.startswith(("http://", "https://", "git@")) or source.endswith(".git")


def unpacked(source: str) -> bool:
    return not fetched(source) and bool(ARCHIVE.search(source))


def first_outside(context: Path, paths: list[str]) -> str:
    """Return the first of `paths`, or of what is below them, that is not in the context, or ""."""
    root = os.path.realpath(context)
    for path in paths:
        for each in _with_all_below(path):
            real = os.path.realpath(each)
            if os.path.commonpath([root, real]) != root:
                return f"{os.path.relpath(each, context)} is {real}"
    return ""


def _with_all_below(path: str) -> Iterator[str]:
    yield path
    for folder, folders, files in os.walk(path):
        yield from (os.path.join(folder, name) for name in (*folders, *files))
