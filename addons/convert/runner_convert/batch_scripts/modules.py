"""The modules that a step is to be started with, and those that the launch does without."""

from __future__ import annotations

from collections.abc import Sequence

from runners.core.site import Profile

from .commands import Command, exclude
from .draft import LaunchLine
from .script import CHANGING, MODULES, UNLOADING, Script, module_command
from .step import JobStep
from .words import BRANCH, unknown

MPI_MODULES = ("openmpi", "mpich", "impi", "intelmpi", "intel-mpi", "mvapich2", "hpcx", "mpi")


def commands_before(script: Script, step: JobStep, *more: Command) -> list[Command]:
    """Return the commands that may run before a step: not those of another branch."""
    around = () if step.remote else script.content.commands[: step.command.order + 1]
    commands = (*around, *(command for command in more if command.line <= step.line))
    return [
        command for command in commands if not exclude(step.command.conditions, command.conditions)
    ]


def add(draft: LaunchLine, script: Script, step: JobStep, profile: Profile | None) -> None:
    for command in commands_before(script, step):
        if command.name in MODULES:
            _module_command(draft, script, step, command, profile.module_use if profile else ())
    loaded = profile.launch.get("module", []) if profile else []
    alone = step.image is not None and step.layers[0].kind != "starter"
    either = _of_branches(script, step)
    for name, line in script.modules(step.command.order, step.command.conditions).items():
        family = name.partition("/")[0].lower()
        if name in loaded or family in loaded:
            draft.leave_out(line, f"module {name}: the site's profile loads it")
        elif alone and family in MPI_MODULES:
            draft.leave_out(line, f"module {name}: the host's MPI is not used in the container")
        elif name not in either:
            draft.add("module", name)
        elif not draft.has_value("module", text := " or ".join(either)):
            draft.add("module", unknown(text, BRANCH, line))


def _of_branches(script: Script, step: JobStep) -> list[str]:
    """Return the modules that one of two branches before a step loads, and the other does not."""
    loads = dict[tuple[str, ...], list[str]]()
    for command in commands_before(script, step):
        if command.name in MODULES and module_command(command)[0] in ("load", "add"):
            names = [word.text for word in module_command(command)[1]]
            loads.setdefault(command.conditions, []).extend(names)
    others = [(a, b) for a in loads for b in loads if exclude(a, b)]
    return [*dict.fromkeys(name for a, b in others for name in loads[a] if name not in loads[b])]


def _module_command(
    draft: LaunchLine, script: Script, step: JobStep, command: Command, of_site: Sequence[str]
) -> None:
    """Add what a `module` command does but to load."""
    verb, words = module_command(command)
    if verb in ("purge", "reset"):
        draft.add("module-purge")
    elif verb == "use":
        for word in words:
            if word.text in of_site:
                draft.leave_out(command.line, f"{command.text}: the site's profile does it")
            else:
                draft.add("module-use", word)
    elif verb in UNLOADING | CHANGING:
        orders = command.order - 1, command.order
        before, after = (len(script.modules(n, step.command.conditions)) for n in orders)
        if after >= before:  # that of the login
            draft.lose(command.line, command.text)
    elif any(word.unknown for word in words):
        draft.lose(command.line, f"{command.text}: only the run knows the module")
