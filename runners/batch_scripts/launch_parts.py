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
    if not step.starter:  # on the script's own node, beside those by ssh
        return bool(numbered and step.command.loops and step.command.background)
    if step.starter.name == "ssh":
        return bool(step.command.loops) or numbered
    told = step.agent.get("nnodes", "num-machines", "num-nodes", "world-size")
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
        here = first.remote == step.remote  # ssh passes no variables on
        told, first_told = ([word.text for word in _told(each, here)] for each in (step, first))
        if is_part(step) and (_varies(step) or told != first_told) and not first.problems:
            text = "it is started by hand on each node, with other words or variables on each"
            first.problems.append((first.line, text))
    return kept


def _together(one: JobStep, other: JobStep) -> bool:
    """Whether two parts are of one launch: those of one loop, and an agent beside it."""
    loops = {one.command.loops, other.command.loops}
    return len(loops) == 1 or bool(0 in loops and one.agent and other.agent)


def _varies(step: JobStep) -> bool:
    """Whether what a step starts differs from round to round of its loop."""
    pieces = (piece for word in _told(step) for piece in word.unknown)
    return any(p.kind == BRANCH and p.line >= step.command.loops for p in pieces)


def _told(step: JobStep, exported: bool = True) -> list[Word]:
    """All that tells the trainer what to do, but not which rank it is."""
    variables = {**(step.outside.exports if exported else {}), **step.env}
    own = [value for name, value in variables.items() if name not in PLACE]
    return [*step.program, *(() if step.agent else step.shell), *own]
