"""Rules about what the shell makes of a script: line ends, pipes, the background, conda init."""

from __future__ import annotations

import re

from ..commands import Command
from ..programs import names
from ..script import Script
from ..unwrap import unwrap
from .rule import Places, rule

WAITING = names("wait sleep tail fg exec")
BROKEN = re.compile(r"[^#]\s\\[ \t]+(#.*)?$")  # a continued line, but for the blank
GLUED = re.compile(r"[\w\"'}]\\\n\"?-")  # no blank between a word and the option of the next line


@rule
def conda_init(script: Script) -> Places:
    for command in script.content.commands:
        words = [word.text for word in command.arguments]
        init = words[:1] == ["init"] or words[:2] == ["shell", "init"]
        if command.name in ("conda", "mamba", "micromamba") and init:
            what = (
                f"{command.name} init writes into ~/.bashrc, for later shells and not for this one"
            )
            yield command.line, what, f'eval "$({command.name} shell.bash hook)", once in each job'


@rule
def pipe_exit_code(script: Script) -> Places:
    checked = "PIPESTATUS" in script.text or "pipefail" in script.text.split("\n", 1)[0]
    for step in script.steps:
        if (pipe := step.command.pipe) and not step.command.pipefail and not checked:
            yield step.line, f"{pipe[-1]} hides the trainer's exit code", "set -o pipefail above it"


@rule
def background_without_wait(script: Script) -> Places:
    commands = script.content.commands
    for step in script.steps:
        order = step.command.order
        waits = any(command.name in WAITING for command in commands[order + 1 :])
        later = [step.command for step in script.steps if step.command.order > order]
        goes_on = not all(command.background for command in later)
        if step.command.background and not waits and not goes_on:
            what = "the script ends while this runs: it is killed"
            yield step.line, what, "wait, as the last line"


@rule
def stray_blank(script: Script) -> Places:
    lines = script.text.split("\n")
    for command in script.content.commands:
        last = command.line + command.source.count("\n")
        if glued := GLUED.search(command.source):
            line = command.line + command.source.count("\n", 0, glued.start())
            what = "no blank before the backslash: the next line goes on with this word"
            yield line, what, "a blank before \\"
        elif BROKEN.search(lines[last - 1]):
            what = "the command ends here: a backslash with a blank behind it continues no line"
            yield last, what, "the backslash as the last sign of the line"
        elif command.words[0].start.startswith("-") and not lines[last - 1].endswith(")"):
            what = "this is run as a command of its own: no backslash ends the line before"
            yield command.line, what, "\\ as the last sign of the line before"
        elif command.name == "srun" and command.arguments and _no_program(command):
            what = "srun gets no program: no backslash ends this line"
            yield last, what, "a backslash at its end"
        elif [word.text for word in command.arguments[:1]] == ["="] and command.name.isidentifier():
            what = f"this starts a program {command.name}, and sets no variable"
            yield command.line, what, f"{command.name}=... without blanks"


def _no_program(command: Command) -> bool:
    step = unwrap(command)
    return not step.program and step.starter.text("mpi") != "list"


@rule
def windows_line_ends(script: Script) -> Places:
    if script.windows:
        what = "lines end as on Windows (\\r\\n): sbatch refuses the script"
        yield script.windows, what, "sed -i 's/\\r$//' on the script"
