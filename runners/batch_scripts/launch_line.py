"""The `runner launch` line of each step of a script, and what could not be carried over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..core.site import Profile
from ..sites import load
from . import environment, programs, resources, trainer
from .commands import Command
from .compound_commands import LOOP
from .draft import LaunchLine, Note
from .environment import CONDAS, PLAIN, them
from .launch_parts import is_part
from .programs import (
    CLUSTERS,
    FILTERS,
    HELPERS,
    LOOKING,
    OF_SHELL,
    PLACING,
    STARTERS,
    TOOLS,
    is_python,
)
from .purpose import does_more, hidden_agents, runs_python, shell_scripts
from .rules.slurm import secrets
from .script import MODULES, Script
from .simple_commands import HARMLESS
from .step import JobStep
from .unwrap import unwrap
from .words import BRANCH, COMMAND, FILE, RUN, Word

BLANK = re.compile(r"<[\w(][\w .'/()*+=-]*>")  # a place that the script leaves open
LOCAL = ("/tmp", "/dev/shm")  # of each node
SUBSTITUTES = re.compile(r"\$\(|`")
MONITORS = ("nvidia-smi", "rocm-smi")
ENVIRONMENTS = ".deepspeed_env"  # of variables that DeepSpeed hands to other nodes
SETTINGS = (".json", ".yaml", ".yml", ".toml", ENVIRONMENTS)  # ends of files that a training reads
ASKING = ("--version", "-V", "--mpi=list")
# Commands of the shell that are not carried over.
SILENT = dict.fromkeys(("source", ".", "export"), "what it sets is not known here")
SILENT["trap"] = "the launch has no trap"
SILENT |= dict.fromkeys(("ulimit", "umask"), "it is of the script's shell, and not of the ranks")


def draft(script: Script, step: JobStep) -> LaunchLine:
    """Return the launch line of a step that starts a training."""
    made, command = LaunchLine(step.line), step.command
    profile = _site(made, script)
    resources.add(made, script.job, step)
    environment.add(made, script, step, profile)
    trainer.add(made, script.job, step)
    _of_agent(made, step)
    problems = [*_problems(step)]
    made.lost += [*problems, *(Note(*each) for each in step.dropped)]
    made.notes += map(Note._make, step.notes)
    cluster = any({*command.conditions}.issuperset(c.conditions) for c in script.clusters)
    made.possible = not (problems or script.job.hetjob or cluster)
    for condition in command.conditions:
        if is_part(step) and (step.agent or LOOP in condition):
            continue
        made.look_at(step.line, f"{condition} decides whether this runs")
    for file in dict.fromkeys(shell_scripts(step)):
        text = f"{file} is not read: agents that it starts, and variables that it sets, are unknown"
        made.look_at(step.line, text)
    for agent in hidden_agents(step):
        text = f"{agent} is started by {step.names[0]}, which is not known here, for each rank"
        made.look_at(step.line, text)
    _left_out(made, step)
    _blanks(made)
    return made


def _blanks(draft: LaunchLine) -> None:
    """Say which places of the line the script itself leaves open, as <account>."""
    shell = any(word.text in ("-c", "-lc") for word in draft.trainer[1:2])
    words = [value for _, value in draft.options if value] + draft.trainer[:1]
    words += draft.arguments[int(shell) :]
    words += [draft.folder] if draft.folder else []
    told = " ".join(note.text for note in draft.open)
    texts = [(w.line, w.text) for w in words if not w.unknown or (w.portable and "/<" in w.text)]
    blanks = [(line, blank) for line, text in texts for blank in BLANK.findall(text)]
    draft.open += [Note(n, f"{b}: the script leaves it open") for n, b in blanks if b not in told]


def _of_agent(draft: LaunchLine, step: JobStep) -> None:
    agent, direct = step.agent, not draft.has("launcher")
    if agent.name == "torch.distributed.launch" and not agent.has("use-env"):
        draft.lose(agent.line, "--local_rank, which it gives to the script: read LOCAL_RANK")
    for each in step.inner if agent and not direct else ():
        own = unwrap(each).agent or environment.activated(each)
        if does_more(each) and each.name != "cd" and not own:
            draft.lose(each.line, f"{each.text}: not run on each node")


def _problems(step: JobStep) -> Iterator[Note]:
    """Yield why a launch does not do the same."""
    yield from map(Note._make, step.problems)
    command, named = step.command, step.starter.has("nodelist", "relative", "H", "host", "hosts")
    inputs = () if step.fed else command.inputs
    for word in (each for each in inputs if each.text != "/dev/null"):
        yield Note(word.line, f"{command.name} < {word.text}: ranks of runner read no input")
    if named and command.background and command.loops and not is_part(step):
        yield Note(step.line, "the rounds of this loop run together")


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
    given = [each.partition("filesystems=")[2] for each in arguments if "filesystems=" in each]
    own = job.text("filesystems")
    if profile and own and given and {*own.split(":")} != {*given[0].split(":")}:
        text = f"filesystems={own}: the profile of {profile.name} has {given[0]}"
        draft.look_at(job.line_of("filesystems"), text)
    return profile


def _left_out(draft: LaunchLine, step: JobStep) -> None:
    agent, starter, command = step.agent, step.starter, step.command
    if given := [o.name for o in agent.options if o.name.startswith(programs.GIVEN)]:
        text = ", ".join(f"--{name}" for name in given)
        draft.leave_out(agent.line, f"{text}: runner gives {them(given)} to {agent.name}")
    for option in agent.options:
        default = option.name == "max-restarts" and option.text == "0"
        default = default or (step.bare and option.name in PLAIN)
        if option.name not in given and option.name not in programs.OF_COUNTS and not default:
            what = ": with it its ranks, precision and so on" * (option.name == "config-file")
            draft.lose(option.line, f"{agent.name} --{option.name} {option.text}".rstrip() + what)
    placing = dict.fromkeys(o.name for o in starter.options if o.name in PLACING)
    if placing and starter.name not in ("", "srun", "horovodrun"):
        draft.leave_out(starter.line, f"{', '.join(placing)}: runner places ranks")
    own = starter.options if starter.name != "srun" else ()  # which gets them
    for option in (each for each in own if each.name not in STARTERS[starter.name].long):
        draft.lose(option.line, f"{starter.name} -{option.name}")
    if is_part(step) and starter.name == "ssh":
        text = "ssh: a process on each node, by hand; runner starts all, and tells each its rank"
        draft.leave_out(starter.line, text)
    outputs = [*command.outputs, *(starter.values("output") if starter.name == "srun" else ())]
    if command.pipe or outputs:
        where = " | ".join(command.pipe) or " ".join(word.text for word in outputs)
        draft.leave_out(step.line, f"{where}: runner keeps the log")


def others(script: Script) -> Iterator[Note]:
    """Yield what of the whole script could not be carried over."""
    job, content = script.job, script.content
    yield from (Note(line, text) for line, text in job.unread)
    if job.hetjob:
        yield Note(job.hetjob, "a heterogeneous job: runner starts equal ranks only")
    for line in content.faults:
        yield Note(line, "the shell's grammar does not fit from here on")
    for line in content.embedded:
        yield Note(line, "directives in a here-document: they are of the script written there")
    starting = {step.line for step in script.steps}
    written = set[tuple[int, str]]()
    for command in content.commands:
        if command.line in starting or command.within or _known(command, script):
            continue
        instead, hidden = _instead(command, script), secrets(command)
        text = " ".join("..." if word in hidden else word.text for word in command.words)
        if not instead.startswith("write ") or (command.line, instead) not in written:
            yield Note(command.line, f"{text}: {instead}")
        written.add((command.line, instead))  # once for all programs of a pipe
    if not script.steps:
        yield Note(0, "no command starts a training, as far as the script tells")


def _instead(command: Command, script: Script) -> str:
    step = unwrap(command)
    program = step.names
    first, last = "".join(program[:1]), "".join(program[-1:])
    beside = replace(command, outputs=(), background=False)
    if command.outputs and (command.document or _known(beside, script)) and not command.background:
        file = command.outputs[0]
        if file.text.endswith(ENVIRONMENTS):
            return "give its variables by --env"
        again = ", under a name that needs no job" if file.has(RUN) else ""
        return f"write {file.text} before the launch{again}"
    if command.name in SILENT:
        return SILENT[command.name]
    if first in ("sbatch", "qsub"):
        return "the job that it submits is one of its own: convert its script"
    if first in CLUSTERS and script.clusters:
        return "the training uses what it starts, and no launch does"
    local = any(word.start.startswith(LOCAL) for word in step.program)
    if (step.starter or local) and first in HELPERS:
        return "it is for the nodes of the job, and the launch does not run it"
    final = script.steps[-1] if script.steps else None
    if command.background and final and (final.command.background or _follows(final, command)):
        return "it runs beside the training, which the launch does not"
    by_ssh = step.starter.name == "ssh"
    if first not in HELPERS and (by_ssh or not is_python(first)) and last not in TOOLS:
        unread = "".join(f": {file} is not read" for file in shell_scripts(step)[:1])
        return f"what it starts is not known here{unread}"
    words = [*step.program, *([command.folder] if command.folder else [])]
    own = [piece for word in words for piece in word.unknown]
    if any(p.kind == RUN and p.source.startswith("$") for p in own):  # no pattern of files
        return "it needs what only the job knows, and the launch does not run it"
    after = script.steps and not any(_follows(step, command) for step in script.steps)
    return f"no training; do it {'after' if after else 'before'} the launch, where it is needed"


def _follows(step: JobStep, command: Command) -> bool:
    return step.command.order > command.order


def _is_read(outputs: Iterable[Word], script: Script) -> bool:
    """Whether a training is told of a file that a command writes, or reads such files."""
    files = {word.text.rpartition("/")[2] for word in outputs} - {"", "null"}
    told = " ".join(word.text for step in script.steps for word in [*step.program, *step.shell])
    return any(file in told or file.endswith(SETTINGS) for file in files)


def _known(command: Command, script: Script) -> bool:
    """Whether a command is of the shell, or only looks, or is carried over elsewhere."""
    step = unwrap(command)
    if command.outputs and (command.document or _is_read(command.outputs, script)):
        return False
    if command.outputs and command.background and command.name in MONITORS:
        return False
    asks = command.text.startswith("command -v") or command.words[-1].text in ASKING
    if asks or (command.name == "exec" and not command.arguments):
        return True  # the redirections of exec alone are those of a log
    if command.name == "eval":  # $(...) itself, as conda's hook, sets up the script's shell
        kinds = (BRANCH, FILE) if SUBSTITUTES.search(command.source) else (BRANCH, FILE, COMMAND)
        return not any(word.has(*kinds) for word in command.words)
    if command.name == "sed":
        return not any(word.text.startswith(("-i", "--in-place")) for word in command.arguments)
    if is_part(step) and runs_python(step):
        return True
    if step.inner:
        return all(_known(each, script) for each in step.inner)
    first = command.arguments[0].text if command.arguments else ""
    if command.name in ("source", "."):
        return first == "activate" or first.endswith(HARMLESS)
    if command.name in ("ulimit", "umask"):
        return all(word.start[:1] == "-" for word in command.arguments)
    if command.name == "trap":
        return first in ("", "-") or command.words[-1].text in ("EXIT", "ERR", "0")
    conda = command.name in CONDAS and first in ("activate", "deactivate", "init", "info")
    programs = {command.name, *step.names[:1]}
    return conda or bool(programs & {*OF_SHELL, *LOOKING, *FILTERS, *MODULES})


def of_loops(script: Script) -> Iterator[Note]:
    """Yield what is said of loops and of several steps: each is a job of its own."""
    steps = script.steps
    if line := script.content.ended:
        yield Note(line, "from here on nothing runs: the script has ended before")
    for each in script.content.refusals:
        yield Note(each.line, f"{each.text}: the script ends here until it is filled in")
    for line in sorted({s.command.loops for s in steps if not is_part(s)} - {0}):
        launches = [step for step in steps if step.command.loops == line]
        text = f"a loop: {len(launches)} of the launches, each a job of its own"
        if any(word.has(BRANCH) for step in launches for word in step.program):
            text = "a loop: a launch for each of its rounds, or one with --array for all"
        yield Note(line, text)
    if len(steps) > 1 and all(step.command.conditions for step in steps):
        text = f"conditions decide which of the {len(steps)} launches run"
        yield Note(steps[0].line, text)
    elif len(steps) > 1:
        order = "--dependency afterok:JOB keeps their order"
        how = "the script runs them together" if _together(script) else order
        if any(word.start.startswith(LOCAL) for step in steps[1:] for word in step.program):
            how += f"; what one leaves in {' or '.join(LOCAL)} the next has not"
        yield Note(steps[0].line, f"{len(steps)} steps of one job become {len(steps)} jobs; {how}")


def _together(script: Script) -> bool:
    """Whether all steps run beside each other: no `wait` stands between them."""
    started = [step.command for step in script.steps]
    places = [n for n, each in enumerate(script.content.commands) if each in started]
    waits = any(each.name == "wait" for each in script.content.commands[places[0] : places[-1]])
    return not waits and all(each.background for each in started[:-1])
