"""What the trainer runs in: container or environment, its binds, variables and modules."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import shorten

from ..core.command_line import without_secret
from ..core.site import Profile
from . import container, modules, trainer
from .commands import Command
from .directives import Directives
from .draft import MOVED, LaunchLine
from .modules import commands_before
from .programs import APPTAINER, CONTAINERS, DOCKERS, FINDERS, GIVEN, OF_COUNTS, PLACE
from .script import MODULES, Script
from .simple_commands import HARMLESS
from .step import JobStep, runs_python
from .words import ADDRESS, ENVIRONMENT, RUN, Word, compose, folder_before, join, literal, unknown

INTO_CONTAINERS = ("APPTAINERENV_", "SINGULARITYENV_")  # begin names of its variables
OF_HOST = ("LD_LIBRARY_PATH", "PATH", "LD_PRELOAD", "CPATH", "LIBRARY_PATH")
MOST_SHOWN = 120  # signs of a value that is lost
OF_TASK = ("PMI_", "PMIX_", "PALS_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_")  # of the launcher
UNSET = {"NODE_RANK", "NNODES", "NUM_NODES", "NPROC_PER_NODE", "GPUS_PER_NODE"}  # of PLACE
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
    _variables(draft, script, step)
    if step.remote:
        _not_handed_on(draft, script, step)
        return
    modules.add(draft, script, step, profile)
    for command in filter(_chooses, commands_before(script, step)):
        decided = [each for each in command.conditions if each not in step.command.conditions]
        if decided and not command.within:
            draft.look_at(command.line, f"{command.text}: {decided[-1]} decides this")


def _chooses(command: Command) -> bool:
    """Whether a command chooses what a step runs in: modules, or an environment."""
    return command.name in MODULES or activated(command) is not None


def _not_handed_on(draft: LaunchLine, script: Script, step: JobStep) -> None:
    """Say what of the script's shell a program that ssh or pbsdsh starts does not have."""
    before = script.content.commands[: step.command.order]
    chosen = [each.text for each in before if _chooses(each)]
    starter = step.starter.name
    if words := [*(name for name in step.command.exports if name not in PLACE), *chosen]:
        draft.leave_out(step.line, f"{', '.join(words)}: {starter} does not pass {them(words)} on")
    if any(MOVED.search(piece.source) for word in step.program for piece in word.unknown):
        draft.folder = unknown("$HOME", ENVIRONMENT, step.line)  # in which $PWD is another one
    elif not any(each.name == "cd" for each in step.inner):
        text = f"{starter} starts it in your home folder: launch it there"
        draft.look_at(step.line, text)


def _first_on_path(draft: LaunchLine, step: JobStep) -> None:
    """Put the environment of an agent in an image first on its PATH, or do without the agent."""
    own = [step.environment, *map(activated, step.inner)]
    apptainer = step.container.name in APPTAINER
    more = {o.name for o in step.agent.options if not o.name.startswith(GIVEN)} - OF_COUNTS - PLAIN
    for each in filter(None, own if step.agent and not trainer.without_agent(step) else ()):
        if apptainer and each.text.startswith("/") and each.portable:
            draft.add("env", compose(("PREPEND_PATH=", *each.pieces, "/bin"), each.line))
        elif more:
            text = f"runner starts the image's own {step.agent.name}, not that of {each.text}"
            step.problems.append((step.line, text))
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
    found = ((_activated(each, step), bool(each.arguments[1:])) for each in commands)
    names = [(literal(""), False), *((word, named) for word, named in found if word is not None)]
    name, named = (step.environment, step.by_name) if step.environment else names[-1]
    folder = _conda_folder(script, name.text)
    if "/" in name.text or (name.unknown and not named):
        draft.add("image", name)
    elif name.text and folder and folder.is_dir():
        draft.add("image", str(folder))
    elif name.text or _leads(step) or any(map(_may_activate, commands)):
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
    sourced = command.name in ("source", ".") and first.text.endswith("/bin/activate")
    plain = command.name in (*CONDAS, "source", ".") and first.text == "activate"
    if more and (sourced or plain):
        return more[0]
    return folder_before(first, "/bin/activate") if sourced else None


def _activated(command: Command, step: JobStep) -> Word | None:
    """Return the environment that a command activates, as it is named where the step starts."""
    name, folder, own = activated(command), command.folder, step.outside.folder
    moved = (folder.text if folder else "") != (own.text if own else "")
    if name is None or command in step.inner or not moved or name.text[:1] in ("/", "$", "~", ""):
        return name
    below = (name.start.removeprefix("./"), *name.pieces[1 if name.start else 0 :])
    parts = [*filter(None, [folder]), compose(below, name.line)]
    if folder is None or folder.text[:1] not in ("/", "$"):
        parts.insert(0, unknown("$PWD", ENVIRONMENT, name.line))
    return join(parts, "/", name.line) if "/" in name.text else name


def _may_activate(command: Command) -> bool:
    """Whether a command may choose a Python that has no name: conda's base, a file's."""
    first = command.arguments[0].text if command.arguments else ""
    file = first.endswith("/activate") or not first.endswith(HARMLESS)
    sources = command.name in ("source", ".") and file
    return first == "activate" if command.name in CONDAS else sources


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


def _variables(draft: LaunchLine, script: Script, step: JobStep) -> None:
    given: dict[str, Word | None] = {**_of_directive(script.job), **step.outside.exports}
    given |= step.env
    for word in step.starter.values("x"):
        if "=" not in word.text:
            given.setdefault(word.text, None)
    placed: dict[tuple[int, str], list[str]] = {}
    for name, value in given.items():
        line, inside = value.line if value else step.line, _inside(name)
        own = name if step.image is None else inside
        if inside != name and step.image is None and not _may_contain(step):
            draft.leave_out(line, f"{name}: only a container reads it")
        elif verb := _placed(script, step, inside, value):
            placed.setdefault((line, verb), []).append(inside)
        elif reason := _left_out(step, name, value) or _of_slurm(inside):
            draft.leave_out(line, f"{name}: {reason}")
        elif value is not None and _in_line(step, value):
            draft.leave_out(line, f"{name}: what it holds is in the line")
        elif value is None:
            draft.add("env", name, line)
        elif reason := _lost(step, name, value):
            draft.lose(line, f"{name}={shorten(value.text, MOST_SHOWN)}: {reason}")
        else:
            _variable(draft, own, value, step.image is not None)
    for (line, verb), names in placed.items():
        what = "such variable" if verb != "sets" else them(names)
        draft.leave_out(line, f"{', '.join(names)}: runner {verb} {what}")


def _of_directive(job: Directives) -> dict[str, Word]:
    """Return the values that #SBATCH --export=ALL,NAME=VALUE sets."""
    parts = (part.split("=", 1) for word in job.values("export") for part in word.split(","))
    return {name.text: value[0] for name, *value in parts if value}


def _inside(name: str) -> str:
    """Return the name that a variable has in a container."""
    for prefix in INTO_CONTAINERS:
        name = name.removeprefix(prefix)
    return name


def _may_contain(step: JobStep) -> bool:
    """Whether a step may start a container in a way that is not known here."""
    names = {word.text.rpartition("/")[2] for word in step.program}
    return bool(names & CONTAINERS.keys()) or not runs_python(step)


def _in_line(step: JobStep, value: Word) -> bool:
    """Whether a value is words of the step's own command: export CMD="..."; srun $CMD."""
    words = value.text.split()
    return len(words) > 1 and " ".join(words) in " ".join(step.command.text.split())


def _placed(script: Script, step: JobStep, name: str, value: Word | None) -> str:
    """Say what runner does with a variable that tells a rank its place; "" for another one."""
    cpus = (script.job.text("cpus-per-task") or "1", "$SLURM_CPUS_PER_TASK")
    if name in UNSET and (value is None or runs_python(step)):
        return "needs no"
    if name.startswith(OF_TASK):
        return "sets"
    of_cpus = name == "OMP_NUM_THREADS" and value and value.text in cpus
    return "sets" if of_cpus or name in PLACE - UNSET else ""


def _lost(step: JobStep, name: str, value: Word) -> str:
    """Say why the trainer cannot get a variable; "" where it can."""
    if name in UNSET:
        return f"runner sets no such variable; {step.names[0]} may read it"
    if name in OF_HOST and (name != "LD_PRELOAD" or step.image is not None):
        return f"the trainer gets that of the {'modules' if step.image is None else 'image'}"
    if value.has(RUN) and step.agent and not trainer.without_agent(step):
        return "only the job knows it"
    return ""


def _left_out(step: JobStep, name: str, value: Word | None) -> str:
    """Say why a variable is not the launch line's; "" where it is, or is lost."""
    if value is not None and value.has(ADDRESS) and step.agent:
        return "it names nodes of the job, which runner knows"
    within = name in step.env and name not in step.command.given
    if name in OF_HOST and not within and (value is None or step.image is not None):
        outside = "that of the host stays outside of the container"
        return outside if step.image is not None else "the ranks' own"
    if name.startswith(("APPTAINER_", "SINGULARITY_")) and "BIND" not in name:
        return "runner sets Apptainer's own variables"
    return ""


def _of_slurm(name: str) -> str:
    return "runner passes it to srun" if name.startswith(("SRUN_", "SLURM_", "SBATCH_")) else ""


def them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _variable(draft: LaunchLine, name: str, value: Word, in_container: bool) -> None:
    if name in ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH"):
        container.binds(draft, value, "apptainer")
    elif without_secret(f"{name}=x") == name and value.known:
        draft.add("env", name, value.line)
        draft.fill_in(value.line, f"{name}: a secret; export it before the launch")
    elif name == "HOROVOD_CONTROLLER" and value.known in ("gloo", "mpi"):
        draft.add("controller", value)
    elif name == "MODULEPATH":
        for folder in _own_folders(name, value):
            draft.add("module-use", folder)
    elif name == "PYTHONPATH":
        if not value.pieces:
            draft.lose(value.line, f"{name}=: the trainer gets that of the modules")
        elif folders := _own_folders(name, value):
            trainer.exports(draft, name, join(folders, ":", value.line))
            _path_before(draft, name, value, in_container)
    else:
        trainer.exports(draft, name, value)


def _path_before(draft: LaunchLine, name: str, value: Word, in_container: bool) -> None:
    """Say that what a list of folders held before is not in the line."""
    before = [piece.source for piece in value.unknown if name in piece.source]
    if before and in_container:
        draft.leave_out(value.line, f"{before[0]} in it: it stays outside of the container")
    elif before:
        text = f"{before[0]} in it, of modules and your shell: add to --env {name} what is needed"
        draft.lose(value.line, text)


def _own_folders(name: str, path: Word) -> list[Word]:
    """Return what a script adds to a list of folders, without what was in it before."""
    parts = [[p for p in part.pieces if name not in str(p)] for part in path.split(":")]
    return [compose(part, path.line) for part in parts if part]
