"""A batch script as a whole: its directives, its commands and what they start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from runners.core.errors import UsageError
from runners.core.site import Site
from runners.settings.config_files import read_toml

from . import directives, programs
from .commands import Command, Content, Scope, exclude
from .compound_commands import read_commands
from .directives import Directives
from .programs import Option
from .step import JobStep, Layer, first_parts, runs_python, starts_training
from .unwrap import unwrap
from .words import Word, literal

MODULES = ("module", "ml")
UNLOADING = programs.names("unload rm del")
CHANGING = programs.names("swap switch sw restore r")
VERBS = UNLOADING | CHANGING | programs.names("load add purge reset use list l avail av spider")
NOWHERE = Site()


@dataclass(frozen=True)
class Script:
    """A script in `folder`; `windows` is the first line that had no Unix line end, 0 for none."""

    text: str
    job: Directives
    content: Content
    site: Site = NOWHERE
    windows: int = 0
    folder: Path = Path()

    @cached_property
    def steps(self) -> tuple[JobStep, ...]:
        """What starts a training; a program of the first node beside it, or a server, is none."""
        listed = [
            unwrap(command) for command in self.content.commands if command.within != "substitution"
        ]
        _add_images(listed)
        listed = [step for step in listed if starts_training(step)]
        launched = any(step.layers for step in listed)
        waits = any(not step.command.background for step in listed)
        beside = [s for s in listed if launched and s.command.background]
        beside = [s for s in beside if not s.layers or (waits and not runs_python(s))]
        listed = first_parts([step for step in listed if step not in beside])
        _contain(listed, self.job, self.folder)
        return tuple(listed)

    @cached_property
    def clusters(self) -> list[Command]:
        """The commands that start a cluster of their own, as Ray's, or give it work."""
        named = [(command, unwrap(command).names) for command in self.content.commands]
        of_clusters = [
            (command, name) for command, name in named if programs.CLUSTERS & {*name[:1]}
        ]
        return [command for command, name in of_clusters if name[1:2] not in (["stop"], ["status"])]

    @property
    def commands(self) -> Iterator[Command]:
        """All commands, those that run on each rank after the one that starts them."""
        for command in self.content.commands:
            yield command
            yield from unwrap(command).inner

    def modules(self, order: int, conditions: Sequence[str] = ()) -> dict[str, int]:
        """The modules that are loaded at a command, without those that `conditions` exclude."""
        loaded: dict[str, int] = {}
        for command in self.content.commands:
            excluded = exclude(conditions, command.conditions)
            if command.name not in MODULES or command.order > order or excluded:
                continue
            verb, words = module_command(command)
            names = [word.text for word in words if not word.unknown]
            if verb in ("purge", "reset"):
                loaded.clear()
            elif verb in UNLOADING:
                gone = [
                    module for module in loaded if module in names or module.split("/")[0] in names
                ]
                loaded = {module: at for module, at in loaded.items() if module not in gone}
            elif verb in ("load", "add"):
                loaded |= dict.fromkeys(names, command.line)
        return loaded

    def values(self, name: str) -> list[Word]:
        """Return the values that a variable gets, in the script and on the way to a program."""
        values = [
            assignment.value for assignment in self.content.assignments if assignment.name == name
        ]
        return values + [step.env[name] for step in self.steps if name in step.env]

    def uses(self, *names: str) -> bool:
        return any(command.name in names for command in self.content.commands)


def module_command(command: Command) -> tuple[str, list[Word]]:
    """Return the verb of a `module` command and the words behind it; `ml NAME` loads."""
    words = [word for word in command.arguments if not word.start.startswith("-")]
    named = words and (command.name == "module" or words[0].text in VERBS)
    return (words[0].text, words[1:]) if named else ("load", words)


def _add_images(steps: list[JobStep]) -> None:
    """Give the steps that enter a container by its name, or an instance, its image."""
    images: dict[str, Word] = {}
    instances = dict[str, tuple[Word, Sequence[Option], Mapping[str, Word]]]()
    for step in steps:
        of_podman = step.container.name in programs.PODMANS
        if of_podman and step.image and (name := step.container.text("name")):
            instances[name] = (step.image, step.container.options, step.env)
        if step.names[1:3] == ["instance", "start"] and step.names[0] in programs.APPTAINER:
            read_ = programs.read(step.program[3:], programs.OPTIONS["apptainer"])
            image, instance = [*read_.rest, literal(""), literal("")][:2]
            instances[f"instance://{instance.text}"] = (image, read_.options, {})
        if step.image and step.image.text in instances:
            _enter(step, *instances[step.image.text])
        elif problem := _no_image(step):
            step.problems.append((step.line, problem))
        if name := step.container.text("container-name"):
            images |= {name: step.image} if step.image else {}
            step.image = images.get(name)
            if step.image is None:
                text = f"--container-name={name}: only the run knows its image"
                step.problems.append((step.line, text))


def _enter(step: JobStep, image: Word, options: Sequence[Option], env: Mapping[str, Word]) -> None:
    """Let a step enter an instance: with its image, its options and its variables."""
    container, step.image, step.env = step.container, image, {**env, **step.env}
    step.layers[step.layers.index(container)] = replace(
        container, options=[*options, *container.options]
    )


def _no_image(step: JobStep) -> str:
    """Say why a step enters a container that the script does not start; "" for another step."""
    if step.container.name in programs.PODMANS and step.action == "exec":
        return f"{step.container.name} exec: only the run knows the container's image"
    if step.image and step.image.start.startswith("instance://"):
        return f"{step.image.text}: give the image itself"
    return ""


def _contain(steps: list[JobStep], job: Directives, folder: Path) -> None:
    given = [option for option in job.options if option.name.startswith("container-")]
    for step in steps:
        name = step.starter.text("environment") or job.text("environment")
        options = [*_defined(name, folder, step.line), *given]
        images = [
            option.value for option in options if option.name == "container-image" and option.value
        ]
        if name and not images:
            images.append(literal(f"<image of {name}>", step.line))
        if images and not step.container:
            step.image = images[-1]
            layer = Layer(options, kind="container", name="pyxis", line=step.line)
            step.layers.insert(bool(step.starter), layer)
            for value in layer.values("env"):
                variable, text = value.split("=", 1)
                step.env.setdefault(variable.text, text)


def _defined(name: str, folder: Path, line: int) -> list[Option]:
    """Return what CSCS's environment definition file (EDF) asks for; nothing if it is not here."""
    path = Path(os.path.expandvars(name))
    path = path if path.suffix == ".toml" else Path.home() / ".edf" / f"{name}.toml"
    try:
        table = read_toml(folder / path) if name else {}
        rows = [("container-image", table["image"])] if "base_environment" not in table else []
        rows += [("container-mounts", mount) for mount in table.get("mounts", ()) if rows]
        rows += [("env", f"{key}={value}") for key, value in table.get("env", {}).items()]
        rows += [("container-workdir", table["workdir"])] if "workdir" in table else []
        rows += [("annotations", str(table["annotations"]))] if "annotations" in table else []
    except (UsageError, ValueError, LookupError, TypeError, AttributeError):
        return []
    texts = [str(text).replace('"', '\\"') for _, text in rows]
    values = [read_commands(f'A="{text}"', Scope(), line - 1).assignments for text in texts]
    return [
        Option(n, assignments[0].value, line)
        for (n, _), assignments in zip(rows, values)
        if assignments
    ]


def load(text: str, name: str, site: Site = NOWHERE) -> Script:
    """Return a script that was read. Raises UsageError for one that no POSIX shell reads."""
    windows = text.count("\n", 0, text.find("\r\n")) + 1 if "\r\n" in text else 0
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _check_shell(text, name)
    job = directives.read(text)
    _check_scheduler(text, name, job)
    try:
        content = read_commands(text, Scope(given=job.given()), marks=tuple(directives.MARKS))
    except RecursionError:
        raise UsageError(
            f"{name} is nested too deeply to be read", id="script-too-nested"
        ) from None
    if content.faults and not content.commands:
        first, lines = content.faults[0], text.split("\n")
        raise UsageError(
            f"{name}, line {first}: this is no shell script",
            lines[first - 1],
            id="script-not-shell",
        )
    return Script(text, job, content, site, windows, Path(name).parent)


def _check_shell(text: str, name: str) -> None:
    first = text.split("\n", 1)[0].removeprefix("#!") if text.startswith("#!") else "sh"
    words = [word for word in first.split() if word[:1] != "-" and not word.endswith("/env")]
    program = words[0].rpartition("/")[2] if words else "no program"
    if program not in (*programs.SHELLS, "ksh"):
        what = f"{name}, line 1: a script for {program}, not for a POSIX shell"
        raise UsageError(
            what, "runner convert reads scripts for bash and sh", id="script-of-other-shell"
        )


def _check_scheduler(text: str, name: str, job: Directives) -> None:
    for number, line in enumerate(text.split("\n") if job.scheduler in ("", "pbs") else (), 1):
        for mark, scheduler in directives.FOREIGN.items():
            if line.startswith(mark):
                what = f"{name}, line {number}: directives of {scheduler}"
                known = "runner knows Slurm, PBS and Cobalt: write the directives of one of them"
                raise UsageError(
                    what,
                    f"{known} in place of these, and convert it again",
                    id="script-of-other-scheduler",
                )
