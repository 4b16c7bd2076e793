"""Steps that are parts of one launch, each started on one node: the first stands for them all."""

from __future__ import annotations

from collections.abc import Sequence

from .programs import PLACE
from .step import JobStep
from .words import BRANCH, Word


def is_part(step: JobStep) -> bool:
    """Whether a step starts the agent of one node, and like steps those of the others.

    So does an ssh in a loop, whatever it starts.
    """
    numbered = step.agent.has("node-rank", "machine-rank")
    told = step.agent.get("nnodes", "num-machines", "num-nodes", "world-size")
    if not step.starter:  # on the script's own node, beside those by ssh
        beside = step.command.loops and step.command.background
        return bool(numbered and told and told.text != "1" and beside)
    if step.starter.name == "ssh":
        return bool(step.command.loops) or numbered
    counts = step.starter.count("nodes"), step.starter.count("ntasks")
    one = 1 in counts and step.starter.has("nodelist", "relative", "host", "hosts", "H")
    several = numbered or (told and told.text != "1")
    return bool(told and several and one)


def first_parts(steps: Sequence[JobStep]) -> list[JobStep]:
    """Return steps with the first one alone of the parts of each launch."""
    kept = list[JobStep]()
    for step in steps:
        before = (each for each in reversed(kept) if is_part(step) and is_part(each))
        first = next((each for each in before if _together(each, step)), step)
        if first is step:
            kept.append(step)
        other = _varies(step) or _words(step) != _words(first) or _conflict(first, step)
        if is_part(step) and other and not first.problems:
            text = "it is started by hand on each node, with other words or variables on each"
            first.problems.append((first.line, text))
        lacks = [name for name in _variables(first) if name not in _variables(step)]
        if lacks and step.remote and not first.remote:
            text = f"{step.starter.name} does not pass {', '.join(lacks)} on; the launch does"
            first.notes.append((step.line, text))
    return kept


def _together(one: JobStep, other: JobStep) -> bool:
    """Whether two parts are of one launch: those of one loop, and an agent beside it."""
    loops = {one.command.loops, other.command.loops}
    return len(loops) == 1 or bool(0 in loops and one.agent and other.agent)


def _varies(step: JobStep) -> bool:
    """Whether what a step starts differs from round to round of its loop."""
    told = [*step.program, *(() if step.agent else step.shell), *_variables(step).values()]
    pieces = (piece for word in told for piece in word.unknown)
    return any(p.kind == BRANCH and p.line >= step.command.loops for p in pieces)


def _words(step: JobStep) -> list[str]:
    """What tells the trainer what to do, beside its variables."""
    return [word.text for word in (*step.program, *(() if step.agent else step.shell))]


def _variables(step: JobStep) -> dict[str, Word]:
    """The variables of the trainer that do not tell which rank it is."""
    variables = {**step.outside.exports, **step.env}
    return {name: value for name, value in variables.items() if name not in PLACE}


def _conflict(one: JobStep, other: JobStep) -> bool:
    """Whether two parts have other variables; the one by ssh may lack some."""
    of_one, of_other = ({n: v.text for n, v in _variables(each).items()} for each in (one, other))
    if one.remote == other.remote:
        return of_one != of_other
    by_ssh, here = (of_one, of_other) if one.remote else (of_other, of_one)
    return not by_ssh.items() <= here.items()
