"""Command substitution: what `$(...)` prints, as far as the script alone tells it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from .commands import JOB_NUMBERS, Command, Scope
from .expansion import calculate
from .words import ADDRESS, COMMAND, ENVIRONMENT, Unknown, Word, join, literal, unknown

NODE_FILES = ("PBS_NODEFILE", "COBALT_NODEFILE")
ADDRESSES = ("scontrol", "hostname", "getent", "host", "dig", "nslookup", "ip", "uname")
# What the directives say: of PBS's file of nodes how many there are, and its lines; GPUs of a node.
NODES, LINES, GPUS = "nodes of the job", "lines of PBS_NODEFILE", "GPUs of a node"
LISTS_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
MOST_NUMBERS = 1000  # of seq: a launch line with more is for nobody
# Options of what prints an absolute path, before the path; readlink alone prints a link's target.
ABSOLUTE = re.compile(r"realpath( -[emsqLP]+)*|readlink -n?[fem]n?")
COUNTERS = {"wc", "cat", "sort", "uniq", "tr", "awk", "sed"}


def printed(commands: Sequence[Command], text: str, line: int, scope: Scope) -> Word:
    """Return the output of the commands of a substitution: known, or one unknown piece."""
    if known := _by_one(commands[0], line, scope) if len(commands) == 1 else None:
        return known
    if count := scope.given.get(_counted(commands)):
        return literal(count, line)
    words = [word for command in commands for word in command.words]
    names = [word.text.rpartition("/")[2] for word in words]
    address = any(word.has(ADDRESS) or _has(NODE_FILES, word.text) for word in words)
    address = address or not set(ADDRESSES).isdisjoint(names)
    kind = ADDRESS if address else COMMAND
    digits = _cuts_number(commands)
    padded = digits and commands[-1].name in ("tail", "cut", "rev", "echo", "printf", "sed")
    return Word((Unknown(text, kind, line, (), digits, padded),), line)


def _by_one(command: Command, line: int, scope: Scope) -> Word | None:
    """Return what one command prints, None where the script alone does not tell it."""
    name, words = command.name, command.arguments
    numbers = [word.number for word in words]
    if name in ("whoami", "logname"):
        return unknown("$USER", ENVIRONMENT, line)
    if name == "pwd":
        return scope.word("PWD", line)
    if name in ("which", "command") and words:
        return words[-1]
    before = " ".join([name, *(word.text for word in words[:-1])])
    if ABSOLUTE.fullmatch(before) and words and words[-1].known:
        path = literal(posixpath.normpath(words[-1].text), line)
        return path if path.text[0] == "/" else join((scope.word("PWD", line), path), "/", line)
    if name in ("basename", "dirname") and len(words) == 1 and words[0].known:
        return literal(getattr(posixpath, name)(words[0].text.rstrip("/")), line)
    if name == "expr" and len(words) == 3:
        result = calculate(numbers[0], words[1].text, numbers[2])
        return None if result is None else literal(str(result), line)
    limits = [number for number in numbers if number is not None]
    if name == "seq" and limits and len(limits) == len(words):
        first, step = [*limits[:-1], 1, 1][:2]
        sequence = range(first, limits[-1] + 1, step or 1)[: MOST_NUMBERS + 1]
        return None if sequence[MOST_NUMBERS:] else literal(" ".join(map(str, sequence)), line)
    return None


def _counted(commands: Sequence[Command]) -> str:
    """Say of what `wc` prints the number: nodes, lines of the file of nodes, GPUs; "" if other."""
    names = [command.name for command in commands]
    texts = [word.text for command in commands for word in (*command.words, *command.inputs)]
    if "wc" not in names and "$=" not in texts:  # of sed -n
        return ""
    if names == ["nvidia-smi", "wc"] or any(_has(LISTS_OF_GPUS, text) for text in texts):
        return GPUS
    if names == ["scontrol", "wc"]:
        return "SLURM_NNODES"
    of_file = COUNTERS.issuperset(names) and any(_has(NODE_FILES, text) for text in texts)
    return (NODES if "uniq" in names or "-u" in texts else LINES) if of_file else ""


def _has(names: Sequence[str], text: str) -> bool:
    return any(name in text for name in names)


def _cuts_number(commands: Sequence[Command]) -> bool:
    """Whether this prints the last digits of the job's number, or a number made of them."""
    words = [word for command in commands for word in command.words]
    cut = any(command.name in ("tail", "cut", "expr", "rev") for command in commands)
    of_job = any(name in word.text for word in words for name in JOB_NUMBERS)
    return any(piece.digits for word in words for piece in word.unknown) or (cut and of_job)
