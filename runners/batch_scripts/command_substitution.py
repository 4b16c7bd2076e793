"""Command substitution: what `$(...)` prints, as far as the script alone tells it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .commands import JOB_NUMBERS, Scope
from .expansion import OPERATORS
from .words import ADDRESS, COMMAND, ENVIRONMENT, Unknown, Word, literal, unknown

if TYPE_CHECKING:
    from .commands import Command

ADDRESSES = ("scontrol", "hostname", "getent", "host", "dig", "nslookup", "ip", "uname")
# What the directives say: of PBS's file of nodes how many there are, and its lines; GPUs of a node.
NODES, LINES, GPUS = "nodes of the job", "lines of PBS_NODEFILE", "GPUs of a node"
COUNTED = {"nvidia-smi": GPUS, "scontrol": "SLURM_NNODES"}  # by `| wc -l`
LISTS_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
MOST_NUMBERS = 1000  # of seq: a launch line with more is for nobody
COUNTERS = ("wc", "cat", "sort", "uniq", "tr", "awk")


def printed(commands: Sequence[Command], text: str, line: int, scope: Scope) -> Word:
    """Return the output of the commands of a substitution: known, or one unknown piece."""
    names = [command.name for command in commands]
    if names in (["whoami"], ["logname"]):
        return unknown("$USER", ENVIRONMENT, line)
    if names == ["pwd"]:
        value = scope.value("PWD", line)
        return value if isinstance(value, Word) else unknown("$PWD", ENVIRONMENT, line)
    of_gpus = any(name in each.text for each in commands for name in LISTS_OF_GPUS)
    counted = GPUS if of_gpus else COUNTED.get(names[0], "") if names[1:] == ["wc"] else ""
    if names[-1:] == ["wc"] and counted in scope.given:
        return literal(scope.given[counted], line)
    paths = [word.text for each in commands for word in each.arguments[:1] if word.known]
    if names in (["basename"], ["dirname"]) and paths:
        path, name = paths[0], names[0]
        return literal(getattr(posixpath, name)(path.rstrip("/")), line)
    if names in (["which"], ["command"]) and commands[0].arguments:
        return commands[0].arguments[-1]
    numbers = [word.number for each in commands for word in each.arguments]
    if names == ["expr"] and len(numbers) == 3 and numbers[0] is not None and numbers[2]:
        sign = commands[0].arguments[1].text
        if sign in OPERATORS:
            return literal(str(OPERATORS[sign](numbers[0], numbers[2])), line)
    if names == ["seq"] and numbers and None not in numbers:
        first, step = [*(number or 0 for number in numbers[:-1]), 1, 1][:2]
        sequence = range(first, (numbers[-1] or 0) + 1, step or 1)
        if not sequence[MOST_NUMBERS:]:
            return literal(" ".join(map(str, sequence)), line)
    if _counts_nodes(commands):
        once = any(command.name == "uniq" or "-u" in command.text.split() for command in commands)
        if count := scope.given.get(NODES if once else LINES):
            return literal(count, line)
    words = [word for command in commands for word in command.words]
    names = [word.text.rpartition("/")[2] for word in words]
    address = any(word.has(ADDRESS) for word in words) or not set(ADDRESSES).isdisjoint(names)
    kind = ADDRESS if address else COMMAND
    digits = _cuts_number(commands)
    padded = digits and commands[-1].name in ("tail", "cut", "rev", "echo", "printf", "sed")
    return Word((Unknown(text, kind, line, (), digits, padded),), line)


def _counts_nodes(commands: Sequence[Command]) -> bool:
    """Whether this counts the lines of PBS's file of nodes: `wc -l < $PBS_NODEFILE`."""
    if not commands or not any(command.name == "wc" for command in commands):
        return False
    words = [word for each in commands for word in (*each.arguments, *each.inputs)]
    files = any("PBS_NODEFILE" in word.text for word in words)
    return files and all(command.name in COUNTERS for command in commands)


def _cuts_number(commands: Sequence[Command]) -> bool:
    """Whether this prints the last digits of the job's number, or a number made of them."""
    words = [word for command in commands for word in command.words]
    cut = any(command.name in ("tail", "cut", "expr", "rev") for command in commands)
    own = any(name in word.text for word in words for name in JOB_NUMBERS)
    return any(piece.digits for word in words for piece in word.unknown) or (cut and own)
