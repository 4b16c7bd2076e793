"""The `runner launch` line of each step of a script, and what could not be carried over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from runners.core.site import Profile
from runners.sites import load

from . import logs, programs, resources, software_environment, trainer_arguments
from .commands import OF_LOGIN
from .compound_commands import LOOP
from .draft import TO_FILL_IN, LaunchLine
from .environment_variables import them
from .programs import HELPERS, PLACING, PREPARING, STARTERS
from .script import MODULES, Script
from .software_environment import PLAIN
from .step import JobStep, Layer, does_more, hidden_agents, is_part, shell_scripts
from .unwrap import unwrap
from .words import ENVIRONMENT

OF_ARRAY = re.compile(r"\$\{?(SLURM_ARRAY_TASK_ID|PBS_ARRAY_INDEX|PBS_ARRAYID)\b(?!:?-)")
VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\b(?!:?-[^}])")  # without a value of its own
# Places that a script leaves open: <account>, and {{ account }} of a template.
BLANK = re.compile(r"<[\w(][\w .'/()*+=-]*>|\{\{[^{}]*\}\}")


def draft(script: Script, step: JobStep) -> LaunchLine:
    """Return the launch line of a step that starts a training."""
    launch, command = LaunchLine(step.line), step.command
    profile = _site(launch, script)
    resources.add(launch, script.job, step)
    software_environment.add(launch, script, step, profile)
    trainer_arguments.add(launch, script.job, step)
    logs.add(launch, script, step)
    _of_agent(launch, step)
    problems = [*_problems(step)]
    for line, text in (*problems, *step.dropped):
        launch.lose(line, text)
    for line, text in step.notes:
        launch.look_at(line, text)
    cluster = any({*command.conditions}.issuperset(c.conditions) for c in script.clusters)
    launch.possible = not (problems or script.job.hetjob or cluster)
    _to_look_at(launch, step)
    _options_left_out(launch, step)
    _blanks(launch)
    _named_elsewhere(launch, script)
    return launch


def _to_look_at(draft: LaunchLine, step: JobStep) -> None:
    for condition in step.command.conditions:
        if condition.startswith(LOOP) or (is_part(step) and step.agent):
            continue  # of loops it is said how many launches they are
        draft.look_at(step.line, f"{condition} decides whether this runs")
    for file in dict.fromkeys(shell_scripts(step)):
        text = f"{file} is not read: agents that it starts, and variables that it sets, are unknown"
        draft.look_at(step.line, text)
    for agent in hidden_agents(step):
        text = f"{agent} is started by {step.names[0]}, which is not known here, for each rank"
        draft.look_at(step.line, text)


def _blanks(draft: LaunchLine) -> None:
    """Say which places of the line the script itself leaves open, as <account>."""
    shell = any(word.text in ("-c", "-lc") for word in draft.trainer[1:2])
    words = [value for _, value in draft.options if value] + draft.trainer[:1]
    words += draft.arguments[int(shell) :]
    words += [draft.folder] if draft.folder else []
    known = " ".join(note.what for note in draft.said(TO_FILL_IN))
    texts = [(w.line, w.text) for w in words if not w.unknown or (w.portable and "/<" in w.text)]
    blanks = [(line, blank) for line, text in texts for blank in BLANK.findall(text)]
    for line, blank in blanks:
        if blank not in known:
            draft.fill_in(line, f"{blank}: the script leaves it open")


def _named_elsewhere(draft: LaunchLine, script: Script) -> None:
    """Say which variables of the line neither the script nor each login sets."""
    words = [*draft.all_words()]
    of_array = OF_ARRAY.search("\n".join(word.text for word in words))
    if of_array and not (draft.has("array", "sweep") or script.job.has("t")):  # Torque's -t
        draft.look_at(0, f"{of_array[1]} needs --array, which the submission gives")
    unknown = (piece for word in words for piece in word.unknown)
    sources = " ".join(piece.source for piece in unknown if piece.kind == ENVIRONMENT)
    names = {*VARIABLE.findall(sources)} - {*OF_LOGIN, "OLDPWD"}
    if names and script.uses(*MODULES):
        text = "of your shell, or of the modules: where one is empty, load them before you launch"
        draft.look_at(0, f"{', '.join(f'${name}' for name in sorted(names))}: {text}")


def _of_agent(draft: LaunchLine, step: JobStep) -> None:
    agent, direct = step.agent, not draft.has("launcher")
    if agent.name == "torch.distributed.launch" and not agent.has("use-env"):
        draft.lose(agent.line, "--local_rank, which it gives to the script: read LOCAL_RANK")
    for command in step.inner if agent and not direct else ():
        has_agent = unwrap(command).agent or software_environment.activated(command)
        if does_more(command) and command.name != "cd" and not has_agent:
            draft.lose(command.line, f"{command.text}: not run on each node")
    for command in step.inner if agent and direct and step.lead else ():
        helps = command.name in HELPERS and command.name not in PREPARING
        if helps and not command.within:
            text = "each rank runs it, where the script does once a node"
            draft.look_at(command.line, f"{command.text}: {text}")


def _problems(step: JobStep) -> Iterator[tuple[int, str]]:
    """Yield why a launch does not do the same."""
    yield from step.problems
    command, named = step.command, step.starter.has("nodelist", "relative", "H", "host", "hosts")
    inputs = () if step.fed else command.inputs
    for word in (redirected for redirected in inputs if redirected.text != "/dev/null"):
        yield word.line, f"{command.name} < {word.text}: ranks of runner read no input"
    if named and command.background and command.loops and not is_part(step):
        yield step.line, "the rounds of this loop run together"


def _site(draft: LaunchLine, script: Script) -> Profile | None:
    job = script.job
    if not job.scheduler or job.scheduler == "slurm":
        return script.site.profile
    name = job.text("system")
    if name and name in load.found(os.environ):
        draft.add("site", name)
    elif name:
        draft.add("constraint", f"system={name}")
    draft.add("scheduler", job.scheduler)
    profile = load.profile(name, os.environ) if draft.has("site") else script.site.profile
    arguments = map(str, profile.launch.get("sbatch-arg", ())) if profile else ()
    given = [
        argument.partition("filesystems=")[2]
        for argument in arguments
        if "filesystems=" in argument
    ]
    filesystems = job.text("filesystems")
    if profile and filesystems and given and {*filesystems.split(":")} != {*given[0].split(":")}:
        text = f"filesystems={filesystems}: the profile of {profile.name} has {given[0]}"
        draft.look_at(job.line_of("filesystems"), text)
    return profile


def _options_left_out(draft: LaunchLine, step: JobStep) -> None:
    """Say which options of agent and starter, and which redirections, the line does without."""
    _of_agents_options(draft, step)
    _of_starters_options(draft, step.starter)
    if step.launcher:
        _of_starters_options(draft, step.launcher)
    if is_part(step) and step.starter.name == "ssh":
        text = "ssh: a process on each node, by hand; runner starts all, and tells each its rank"
        draft.leave_out(step.starter.line, text)


def _of_starters_options(draft: LaunchLine, starter: Layer) -> None:
    placing = dict.fromkeys(o.name for o in starter.options if o.name in PLACING)
    if placing and starter.name not in ("", "srun", "horovodrun"):
        draft.leave_out(starter.line, f"{', '.join(placing)}: runner places ranks")
    options = starter.options if starter.name != "srun" else ()  # which gets them
    for option in (option for option in options if option.name not in STARTERS[starter.name].long):
        draft.lose(option.line, f"{starter.name} -{option.name}")


def _of_agents_options(draft: LaunchLine, step: JobStep) -> None:
    agent = step.agent
    given = [o.name for o in agent.options if o.name.startswith(programs.GIVEN)]
    if given:
        text = ", ".join(f"--{name}" for name in given)
        draft.leave_out(agent.line, f"{text}: runner gives {them(given)} to {agent.name}")
    plain = {*given, *programs.OF_COUNTS, *(PLAIN if step.bare else ())}
    for option in agent.options:
        default = option.name == "max-restarts" and option.text == "0"
        if option.name not in plain and not default:
            what = (
                ": with it its ranks, precision and so on" if option.name == "config-file" else ""
            )
            draft.lose(option.line, f"{agent.name} --{option.name} {option.text}".rstrip() + what)
