"""What of a script stands outside of its steps: commands that no launch line does, and loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from textwrap import shorten

from ..line_diagnosis import LineDiagnosis
from .commands import Command
from .compound_commands import LOOP
from .draft import NOT_CARRIED_OVER, TO_LOOK_AT, note
from .programs import CLUSTERS, FILTERS, HARMLESS, HELPERS, LOOKING, OF_SHELL, TOOLS, is_python
from .rules.secret_in_script import secrets
from .script import MODULES, Script
from .software_environment import CONDAS
from .step import ASKING, JobStep, is_part, runs_python, shell_scripts
from .unwrap import unwrap
from .words import BRANCH, COMMAND, RUN, Word

LOCAL = ("/tmp", "/dev/shm")  # of each node
CONDAS_HOOK = re.compile(r"conda\b.*\bshell\.\w+\W+hook\b")
SUBSTITUTES = re.compile(r"\$\(|`")
MONITORS = ("nvidia-smi", "rocm-smi")
ENVIRONMENTS = ".deepspeed_env"  # of variables that DeepSpeed hands to other nodes
SETTINGS = (".json", ".yaml", ".yml", ".toml", ENVIRONMENTS)  # ends of files that a training reads
MOST_SHOWN = 300  # signs of a command
# Commands of the shell that are not carried over, and of other jobs.
INSTEAD = {
    **dict.fromkeys(("source", ".", "export"), "what it sets is not known here"),
    "trap": "the launch has no trap",
    **dict.fromkeys(("ulimit", "umask"), "it is of the script's shell, and not of the ranks"),
}
SUBMITTING = ("sbatch", "qsub")
KNOWN = frozenset({*OF_SHELL, *LOOKING, *FILTERS, *MODULES})


def not_carried_over(script: Script) -> Iterator[LineDiagnosis]:
    """Yield what of the whole script could not be carried over."""
    job, content, lost = script.job, script.content, partial(note, NOT_CARRIED_OVER)
    yield from (lost(line, text) for line, text in job.unread)
    if job.hetjob:
        yield lost(job.hetjob, "a heterogeneous job: runner starts equal ranks only")
    for line in content.faults:
        yield lost(line, "the shell's grammar does not fit from here on")
    for line in content.embedded:
        yield lost(line, "directives in a here-document: they are of the script written there")
    starting = {step.line for step in script.steps}
    written = set[tuple[int, str]]()
    for command in content.commands:
        if command.line in starting or command.within or _known(command, script):
            continue
        instead, hidden = _instead(command, script), secrets(command)
        text = " ".join("..." if word in hidden else word.text for word in command.words)
        if not instead.startswith("write ") or (command.line, instead) not in written:
            yield lost(command.line, f"{shorten(text, MOST_SHOWN)}: {instead}")
        written.add((command.line, instead))  # once for all programs of a pipe
    if not script.steps:
        yield lost(0, "no command starts a training, as far as the script tells")


def _instead(command: Command, script: Script) -> str:
    """Say why no launch line has a command, or what to do in its place."""
    step = unwrap(command)
    first, last = "".join(step.names[:1]), "".join(step.names[-1:])
    if _writes(command, script):
        return _written(command.outputs[0])
    if command.name in INSTEAD:
        return INSTEAD[command.name]
    if first in SUBMITTING:
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
    pieces = [p for w in (*step.program, *filter(None, [command.folder])) for p in w.unknown]
    if any(p.kind == RUN and p.source.startswith("$") for p in pieces):  # no pattern of files
        return "it needs what only the job knows, and the launch does not run it"
    after = script.steps and not any(_follows(step, command) for step in script.steps)
    return f"no training; do it {'after' if after else 'before'} the launch, where it is needed"


def _writes(command: Command, script: Script) -> bool:
    """Whether a command is there to write a file."""
    beside = replace(command, outputs=(), background=False)
    writes = command.outputs and (command.document or _known(beside, script))
    return bool(writes) and not command.background


def _written(file: Word) -> str:
    if file.text.endswith(ENVIRONMENTS):
        return "give its variables by --env"
    again = ", under a name that needs no job" if file.has(RUN) else ""
    return f"write {file.text} before the launch{again}"


def _follows(step: JobStep, command: Command) -> bool:
    return step.command.order > command.order


def _is_read(outputs: Iterable[Word], script: Script) -> bool:
    """Whether a training is told of a file that a command writes, or reads such files."""
    files = {word.text.rpartition("/")[2] for word in outputs} - {"", "null"}
    words = " ".join(word.text for step in script.steps for word in [*step.program, *step.shell])
    return any(file in words or file.endswith(SETTINGS) for file in files)


def _known(command: Command, script: Script) -> bool:
    """Whether a command is of the shell, or only looks, or is carried over elsewhere."""
    step = unwrap(command)
    if command.outputs and (command.document or _is_read(command.outputs, script)):
        return False
    if command.outputs and command.background and command.name in MONITORS:
        return False
    known = _known_by_arguments(command)
    if known is None and step.inner and not (is_part(step) and runs_python(step)):
        return all(_known(command, script) for command in step.inner)
    if known is None:
        names = {command.name, *step.names[:1]}
        return (is_part(step) and runs_python(step)) or bool(names & KNOWN)
    return known


def _known_by_arguments(command: Command) -> bool | None:
    """Whether the arguments of a command tell that it is known; None where they tell nothing."""
    name, words = command.name, command.arguments
    first, last = words[0].text if words else "", command.words[-1].text
    if command.text.startswith("command -v") or last in (*ASKING, "--mpi=list"):
        return True
    if name == "exec" and not words:
        return True  # its redirections are those of a log
    if name in CONDAS and first in ("activate", "deactivate", "init", "info"):
        return True
    if name == "eval" and shell_scripts(unwrap(command)):
        return False
    if name == "eval" and CONDAS_HOOK.search(command.text):
        return True
    if name == "eval":  # $(...) itself, as conda's hook, sets up the script's shell
        prints = (COMMAND,) if SUBSTITUTES.search(command.source) else ()
        return all(piece.kind in prints for word in words for piece in word.unknown)
    if name == "sed":
        return not any(word.text.startswith(("-i", "--in-place")) for word in words)
    if name in ("source", "."):
        return first == "activate" or first.endswith(HARMLESS)
    if name in ("ulimit", "umask"):
        return all(word.start[:1] == "-" for word in words)
    if name == "trap":
        return first in ("", "-") or last in ("EXIT", "ERR", "0")
    return None


def to_look_at(script: Script, lines: int) -> Iterator[LineDiagnosis]:
    """Yield what is said of loops and of several steps: each of the `lines` is a job of its own."""
    steps, told = script.steps, partial(note, TO_LOOK_AT)
    if line := script.content.ended:
        yield told(line, "from here on nothing runs: the script has ended before")
    for refusal in script.content.refusals:
        yield told(refusal.line, f"{refusal.text}: the script ends here until it is filled in")
    for line in sorted({s.command.loops for s in steps if not is_part(s)} - {0}):
        launches = [step for step in steps if step.command.loops == line]
        text = f"a loop: {len(launches)} of the launches, each a job of its own"
        if any(word.has(BRANCH) for step in launches for word in step.program):
            text = "a loop: a launch for each of its rounds, or one with --array for all"
        yield told(line, text)
    if lines > 1 and all(any(not c.startswith(LOOP) for c in s.command.conditions) for s in steps):
        text = f"conditions decide which of the {len(steps)} launches run"
        yield told(steps[0].line, text)
    elif lines > 1:
        order = "--dependency afterok:JOB keeps their order"
        how = "the script runs them together" if _together(script) else order
        if any(word.start.startswith(LOCAL) for step in steps[1:] for word in step.program):
            how += f"; what one leaves in {' or '.join(LOCAL)} the next has not"
        yield told(steps[0].line, f"{lines} steps of one job become {lines} jobs; {how}")


def _together(script: Script) -> bool:
    """Whether all steps run beside each other: no `wait` stands between them."""
    started = [step.command for step in script.steps]
    places = [n for n, command in enumerate(script.content.commands) if command in started]
    waits = any(
        command.name == "wait" for command in script.content.commands[places[0] : places[-1]]
    )
    return not waits and all(command.background for command in started[:-1])
