"""What the trainer runs in: container or environment, its binds, variables and modules."""

from __future__ import annotations

import os
from pathlib import Path

from runners.core.site import Profile

from . import container, environment_variables, modules, trainer_arguments
from .commands import Command, exclude
from .draft import MOVED, LaunchLine
from .environment_variables import them
from .modules import commands_before
from .programs import APPTAINER, DOCKERS, FINDERS, GIVEN, HARMLESS, OF_COUNTS, PLACE
from .script import MODULES, Script
from .step import JobStep
from .words import ENVIRONMENT, Word, compose, folder_before, join, literal, unknown

PLAIN = {"mixed-precision", "no-local-rank", "no-ssh", "no-ssh-check", "ssh-port", "launcher"}
CONDAS = ("conda", "mamba", "micromamba")
# What to look at where `run` starts a container.
RUN_BY_HAND = {
    **dict.fromkeys(APPTAINER, "the launch does not run the image's runscript"),
    **{
        name: f"{name}: the launch runs its image with Apptainer, as you and in your folder"
        for name in DOCKERS
    },
}


def add(draft: LaunchLine, script: Script, step: JobStep, profile: Profile | None) -> None:
    draft.folder = _folder(step.outside.folder)
    if draft.folder is not None:
        draft.note(draft.folder)
    if step.container and step.image is not None:
        if text := RUN_BY_HAND.get(step.container.name if step.action == "run" else ""):
            draft.look_at(step.line, text)
        container.add(draft, script, step.container, step.image)
        _first_on_path(draft, step)
    else:
        _environment(draft, script, step)
    environment_variables.add(draft, script, step)
    if step.remote:
        _not_handed_on(draft, script, step)
        return
    modules.add(draft, script, step, profile)
    for command in filter(_chooses, commands_before(script, step)):
        decided = [
            condition
            for condition in command.conditions
            if condition not in step.command.conditions
        ]
        if decided and not command.within:
            draft.look_at(command.line, f"{command.text}: {decided[-1]} decides this")


def _chooses(command: Command) -> bool:
    """Whether a command chooses what a step runs in: modules, or an environment."""
    return command.name in MODULES or activated(command) is not None


def _not_handed_on(draft: LaunchLine, script: Script, step: JobStep) -> None:
    """Say what of the script's shell a program that ssh or pbsdsh starts does not have."""
    before = script.content.commands[: step.command.order]
    chosen = [command.text for command in before if _chooses(command)]
    starter = step.starter.name
    if words := [*(name for name in step.command.exports if name not in PLACE), *chosen]:
        draft.leave_out(step.line, f"{', '.join(words)}: {starter} does not pass {them(words)} on")
    if any(MOVED.search(piece.source) for word in step.program for piece in word.unknown):
        draft.folder = unknown("$HOME", ENVIRONMENT, step.line)  # in which $PWD is another one
    elif not any(command.name == "cd" for command in step.inner):
        text = f"{starter} starts it in your home folder: launch it there"
        draft.look_at(step.line, text)


def _first_on_path(draft: LaunchLine, step: JobStep) -> None:
    """Put the environment of an agent in an image first on its PATH, or do without the agent."""
    if not step.agent or trainer_arguments.without_agent(step):
        return
    apptainer = step.container.name in APPTAINER
    sourced = [command.arguments[0] for command in step.inner if _sources(command)]
    more = {o.name for o in step.agent.options if not o.name.startswith(GIVEN)} - OF_COUNTS - PLAIN
    for environment in filter(None, [step.environment, *map(activated, step.inner), *sourced]):
        rooted = environment.text.startswith("/") and environment.portable
        if apptainer and rooted and environment not in sourced:
            path = compose(("PREPEND_PATH=", *environment.pieces, "/bin"), environment.line)
            draft.add("env", path)
        elif more:
            text = f"runner starts the image's own {step.agent.name}"
            step.problems.append((step.line, f"{text}, not that of {environment.text}"))
        else:
            step.bare = True
            for value in step.agent.values("mixed-precision"):
                draft.exports.append(("ACCELERATE_MIXED_PRECISION", value))


def _folder(word: Word | None) -> Word | None:
    """Return a folder, None for the one in which the script was submitted."""
    return None if word is None or word.text.rstrip("/") in (".", "$PWD") else word


def _environment(draft: LaunchLine, script: Script, step: JobStep) -> None:
    draft.add("runtime", "none")
    commands = commands_before(script, step, *step.inner)
    found = ((_activated(command, step), bool(command.arguments[1:])) for command in commands)
    names = [(literal(""), False), *((word, named) for word, named in found if word is not None)]
    name, named = (step.environment, step.by_name) if step.environment else names[-1]
    chosen = not step.environment and _in_branches(commands, step)
    name = literal("") if chosen else name
    folder = _conda_folder(script, name.text)
    if "/" in name.text or (name.unknown and not named):
        draft.add("image", name)
    elif name.text and folder and folder.is_dir():
        draft.add("image", str(folder))
    elif name.text or chosen or _leads(step) or any(map(_may_activate, commands)):
        place = f"<environment {name.text}>" if name.text else "<environment>"
        draft.add("image", place)
        text = f"{place}: the folder of {_whose_folder(name.text, folder, step)}"
        draft.fill_in(name.line or step.line, text)
        draft.note(name)
    else:
        text = "no --image: the Python of the modules, or of what is active where you launch"
        draft.look_at(step.line, text)


def _whose_folder(name: str, folder: Path | None, step: JobStep) -> str:
    """Say of which environment the user has to fill in the folder, and what shows it."""
    if step.environment and name in FINDERS:
        return f"{name}'s environment: `{FINDERS[name]}` shows it"
    if not name:
        return "the Python that runs this"
    where = f"; conda looks in {folder}" if folder else ": `conda env list` shows it"
    return f"this conda environment{where}"


def _leads(step: JobStep) -> bool:
    """Whether the script puts folders before those of PATH, in which another Python may be."""
    path = step.variables.get("PATH")
    return path is not None and not path.text.startswith(("$PATH", "${PATH}"))


def activated(command: Command) -> Word | None:
    """Return the environment that a command activates: a name, or a folder."""
    first, *more = command.arguments or [literal("")]
    more = [word for word in more if word.start[:1] != "-"]  # --stack, -n NAME
    sourced = command.name in ("source", ".") and first.text.endswith("/bin/activate")
    plain = command.name in (*CONDAS, "source", ".") and first.text == "activate"
    if more and (sourced or plain):
        return more[0]
    return folder_before(first, "/bin/activate") if sourced else None


def _activated(command: Command, step: JobStep) -> Word | None:
    """Return the environment that a command activates, as it is named where the step starts."""
    name, folder, outside = activated(command), command.folder, step.outside.folder
    moved = (folder.text if folder else "") != (outside.text if outside else "")
    if name is None or command in step.inner or not moved or name.text[:1] in ("/", "$", "~", ""):
        return name
    below = (name.start.removeprefix("./"), *name.pieces[1 if name.start else 0 :])
    parts = [*filter(None, [folder]), compose(below, name.line)]
    if folder is None or folder.text[:1] not in ("/", "$"):
        parts.insert(0, unknown("$PWD", ENVIRONMENT, name.line))
    return join(parts, "/", name.line) if "/" in name.text else name


def _in_branches(commands: list[Command], step: JobStep) -> bool:
    """Whether one of two branches before a step chooses between environments."""
    found = [(c, name.text) for c in commands if (name := _activated(c, step)) is not None]
    return any(
        name != found[-1][1] and exclude(command.conditions, found[-1][0].conditions)
        for command, name in found
    )


def _may_activate(command: Command) -> bool:
    """Whether a command may choose a Python that has no name: conda's base, a file's."""
    first = command.arguments[0].text if command.arguments else ""
    by_file = command.name in ("source", ".") and first.endswith("/activate")
    return first == "activate" if command.name in CONDAS else by_file or _sources(command)


def _sources(command: Command) -> bool:
    """Whether a command reads a file that may set any variable, as NYU's /ext3/env.sh."""
    files = command.arguments if command.name in ("source", ".") else ()
    return bool(files) and not files[0].text.endswith(HARMLESS)


def _conda_folder(script: Script, name: str) -> Path | None:
    """Return where conda looks for an environment: envs/ of its own folder, which is sourced."""
    for command in script.content.commands:
        for word in command.words:
            for end in ("/etc/profile.d/conda.sh", "/bin/conda", "/bin/activate"):
                root, separator, _ = word.text.partition(end)
                venv = end == "/bin/activate" and "conda" not in root.lower()
                if separator and not venv and command.name in ("source", ".", "conda", "eval"):
                    return Path(os.path.expandvars(root)) / "envs" / name
    return None
