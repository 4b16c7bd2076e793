"""What a step is for: whether it starts a training, Python, or shell scripts that are not read."""

from __future__ import annotations

from .commands import Command
from .launch_parts import is_part
from .programs import AGENTS, HELPERS, LOOKING, PREPARING, SAID, SHELLS, TOOLS, WRAPPERS, is_python
from .step import JobStep


def runs_python(step: JobStep) -> bool:
    words = [word.text for word in step.program]
    words = words if "".join(step.names[:1]) in WRAPPERS else words[:1]
    return any(is_python(w) or w.endswith(".py") for w in words) or bool(step.agent)


def shell_scripts(step: JobStep) -> list[str]:
    """Return the shell scripts that a step runs, `bash train.sh` or `./train.sh`; none is read."""
    lists = [step.program, *(each.words for each in step.inner)]
    shells = (words[1:] if words[0].text in SHELLS else words[:1] for words in lists if words)
    files = (next((w.text for w in words if w.start[:1] != "-"), "") for words in shells)
    return [file for file in files if file.endswith((".sh", ".bash"))]


def hidden_agents(step: JobStep) -> list[str]:
    """Return the agents among the words of a program that is not known, as another container's."""
    names = [word.text.rpartition("/")[2] for word in step.program[1:]]
    return [] if runs_python(step) else [name for name in names if name in AGENTS]


def starts_training(step: JobStep) -> bool:
    """Whether a step starts a training, as far as the script tells."""
    first, names = "".join(step.names[:1]), step.names
    helps = first in HELPERS | LOOKING | PREPARING or (names[1:2] == ["-m"] and names[-1] in TOOLS)
    asks = (["-c"], ["--version"], *([] if step.layers else [[]]))  # python < text
    helps = helps or (is_python(first) and names[1:2] in asks)
    helps = helps or (first in SHELLS and not names[1:] and not step.command.inputs)
    helps = helps or "setup.py" in names or step.command.text.endswith(" --version")
    helps = helps or (step.command.within == "until" and {x.kind for x in step.layers} <= {"shell"})
    if step.starter.name == "ssh":
        within = step.container or sum(layer.kind == "starter" for layer in step.layers) > 1
        return bool(step.program and is_part(step) and not helps and (runs_python(step) or within))
    return bool(step.program and not helps and (step.layers or runs_python(step)))


def does_more(command: Command) -> bool:
    """Whether a command in `bash -c` does what a launch line does not say."""
    return not command.within and command.name not in SAID | LOOKING
