"""Turns a Dockerfile into a definition. What has no counterpart in Apptainer becomes a note.

Each stage fills a Recipe of spython, whose own parser (0.3.14) reads line by line and knows no
quotes, no continued lines, no ARG and no USER.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from .parse import HEREDOC, SHELL, Instruction, pairs, parse, shell, words
from .stage import VARIABLE, Note, Reader, Stage, automatic, placeholder

# A RUN that changes its shell: in a Dockerfile the next one starts afresh, in %post it does not.
CHANGES_SHELL = re.compile(r"(?:^|[;&|(\n]\s*)(?:cd|export|set|umask|exit|exec|source|\.)\s", re.M)
INTERPRETER = re.compile(r"#!\s*(.+)")
LOST = {
    "USER": "in Apptainer everybody stays who they are outside; what follows runs as root in %post",
    "EXPOSE": "a container has the network of its host: nothing to do",
    "VOLUME": "bind a folder when it runs: --bind DIR:/volume",
    "STOPSIGNAL": "choose the signal where the program is stopped: scancel --signal",
    "HEALTHCHECK": "write a %test section that proves the image: apptainer test runs it",
    "ONBUILD": "write it into the definitions that start from this image",
}
MOUNTS = {
    "cache": "nothing is kept between builds: packages are fetched each time",
    "bind": "name the files below %files",
    "tmpfs": "the folder is an ordinary one while it is built",
}
SECRET = "hand it over while it is built: export APPTAINERENV_NAME=..., and store nothing"  # noqa: S105  none is here
LATE = "%files come before all of %post; it matters where both touch a path"
INDENT = "    "


class Converter(Reader):
    """Reads the instructions one after the other."""

    def __init__(self, context: Path) -> None:
        super().__init__(context)
        self.globals: dict[str, str] = {}

    def read(self, item: Instruction) -> None:
        """One instruction, by the method with its name."""
        method = getattr(self, f"read_{item.word.lower()}", None)
        if item.word == "ARG" and not self.stages:
            self._global(item)
        elif item.word in LOST:
            self.note(item, f"{item.word} {item.flat}", LOST[item.word])
        elif method:
            method(item)
        else:
            self.note(item, f"{item.word} is not known", "write what it does into %post")

    def _global(self, item: Instruction) -> None:
        for word in words(item.flat):
            name, _, value = word.partition("=")
            self.globals[name] = self.expand(item, shell(value), self.globals)

    def read_from(self, item: Instruction) -> None:
        found = item.flat.split()
        name = found[2] if len(found) > 2 else f"stage{len(self.stages)}"
        for flag, value in item.flags:
            self.note(item, f"--{flag}={value}", "an image is built for the machine it is built on")
        base = self.expand(item, found[0], self.globals)
        earlier = self.named(base)
        if earlier:
            self.note(item, f"FROM {base}, a stage", "the lines of that stage are repeated")
            self.stages.append(replace(deepcopy(earlier), name=name))
        else:
            self.stages.append(Stage(name, base))

    def read_arg(self, item: Instruction) -> None:
        here = self.stage
        for word in words(item.flat):
            name, equals, value = word.partition("=")
            default = shell(value) if equals else self.globals.get(name, automatic(name))
            if default is None:
                self.note(item, f"ARG {name} has no default", f"--build-arg {name}=...")
            known = {**self.globals, **here.variables, **here.arguments}
            here.arguments[name] = self.expand(item, default or "", known)
            self.post(f'export {name}="{placeholder(name)}"')

    def read_env(self, item: Instruction) -> None:
        here = self.stage
        for name, value in pairs(item.flat):
            text = self.with_arguments(item, value)
            here.variables[name] = VARIABLE.sub(
                lambda match: here.variables.get(match[1] or match[2], match[0]), text
            )
            here.recipe.environ.append(f'{name}="{text}"')
            self.post(f'export {name}="{text}"')

    def read_label(self, item: Instruction) -> None:
        for name, value in pairs(item.flat):
            text = " ".join(self.static(item, value).split())
            self.stage.recipe.labels.append([name, text])

    def read_maintainer(self, item: Instruction) -> None:
        self.stage.recipe.labels.append(["org.opencontainers.image.authors", item.flat])

    def read_shell(self, item: Instruction) -> None:
        self.stage.shell = tuple(item.command())

    def read_run(self, item: Instruction) -> None:
        self._run_flags(item)
        self.stage.ran = True
        listed = item.listed()
        if listed is not None:
            self.post(shlex.join(listed))
        elif item.bodies:
            self.post(_with_bodies(item))
        elif self.stage.shell != SHELL:
            self.post(f"{shlex.join(self.stage.shell)} {shlex.quote(item.text)}")
        else:
            self.post(_apart(item.text) if CHANGES_SHELL.search(item.text) else item.text)

    def _run_flags(self, item: Instruction) -> None:
        for flag, value in item.flags:
            kind = dict(part.partition("=")[::2] for part in value.split(",")).get("type", "bind")
            remedy = MOUNTS.get(kind, SECRET) if flag == "mount" else "%post has the host's network"
            self.note(item, f"RUN --{flag}={value}", remedy)

    def read_workdir(self, item: Instruction) -> None:
        here = self.stage
        here.folder = str(PurePosixPath(here.folder) / self.static(item, shell(item.flat)))
        here.recipe.workdir = shlex.quote(here.folder)
        self.post(f"mkdir -p {here.recipe.workdir}")
        self.post(f"cd {here.recipe.workdir}")

    def read_entrypoint(self, item: Instruction) -> None:
        self.stage.entrypoint = item.command()

    def read_cmd(self, item: Instruction) -> None:
        self.stage.command = item.command()


def _apart(text: str) -> str:
    """In a shell of its own; a comment at the end must not swallow the parenthesis."""
    return f"(\n{text}\n    )" if "#" in text else f"({text})"


def _with_bodies(item: Instruction) -> str:
    text, names = item.text, [match[2] for match in HEREDOC.finditer(item.text)]
    if text.startswith("<<"):  # the body is the script itself
        match = INTERPRETER.match(item.bodies[0])
        text = f"{match[1] if match else SHELL[0]} <<'{names[0]}'"
    return "\n".join([text, *(f"{body}\n{name}" for body, name in zip(item.bodies, names))])


def convert(path: Path, text: str) -> tuple[str, list[Note]]:
    """Return the definition of a Dockerfile, and what is missing in it.

    Raises UsageError when it is no Dockerfile.
    """
    converter = Converter(path.absolute().parent)
    for item in parse(text, path.name):
        if item.word != "ARG" and not converter.stages and item.word != "FROM":
            converter.note(item, f"{item.word} before FROM", "it belongs to no image")
        else:
            converter.read(item)
    if converter.copied_late:
        converter.note(converter.copied_late, "COPY after RUN", LATE)
    return _write(converter), sorted(converter.notes, key=lambda note: note.line)


def _write(reader: Reader) -> str:
    stages, last = reader.needed(), reader.stage
    last.recipe.entrypoint = _runscript(last.entrypoint, last.command)
    blocks = [block for stage in stages for block in _blocks(stage, len(stages) > 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _blocks(stage: Stage, named: bool) -> Iterator[list[str]]:
    source = [f"From: {stage.base}"] if stage.base != "scratch" else []
    bootstrap = "docker" if source else "scratch"
    yield [f"Bootstrap: {bootstrap}", *source, *([f"Stage: {stage.name}"] if named else [])]
    if stage.arguments:
        arguments = stage.arguments.items()
        yield ["%arguments", *(f"{INDENT}{name}={value}" for name, value in arguments)]
    yield from _sections(stage.recipe, INDENT)


def _sections(recipe: Any, indent: str) -> list[list[str]]:
    """The sections of a definition that spython writes of a recipe, headings first.

    NOTE: its section writers, not SingularityWriter.convert (0.3.14), which drops empty lines, as
    in a heredoc, joins ENTRYPOINT and CMD, and always writes a script.
    """
    from spython.main.parse.writers import singularity as writer

    found = [writer.create_keyval_section(recipe.files, "files", None)] if recipe.files else []
    for stage, copies in recipe.layer_files.items():
        found.append(writer.create_keyval_section(copies, "files", stage))
    if recipe.labels:
        found.append(writer.create_keyval_section(recipe.labels, "labels", None))
    if recipe.install:
        found.append(writer.finish_section(_not_user(recipe.install), "post"))
    if recipe.environ:
        found.append(writer.create_env_section(recipe.environ, "environment"))
    if recipe.entrypoint:
        script = [*([f"cd {recipe.workdir}"] if recipe.workdir else []), recipe.entrypoint]
        found += [writer.finish_section(script, name) for name in ("runscript", "startscript")]
    return [[lines[0], *(f"{indent}{line.lstrip(' ')}" for line in lines[1:])] for lines in found]


def _not_user(lines: list[str]) -> list[str]:
    """spython takes a line that begins with USER, such as USERS=2, for Docker's instruction."""
    return [f" {line}" for line in lines]


def _runscript(entrypoint: list[str] | None, command: list[str] | None) -> str:
    """What runs without words of the user's; "" when the base's own shall.

    As in Docker, the user's words take the place of CMD and follow ENTRYPOINT.
    """
    if entrypoint and tuple(entrypoint[:2]) == SHELL:
        return f"exec {shlex.join(entrypoint)}"
    default = f"[ $# -gt 0 ] || set -- {shlex.join(command)}\n{INDENT}" if command else ""
    if entrypoint:
        return f'{default}exec {shlex.join(entrypoint)} "$@"'
    return f'{default}exec "$@"' if command else ""
