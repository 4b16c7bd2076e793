"""Steps that are parts of one launch, each started on one node: the first stands for them all."""

from __future__ import annotations

from collections.abc import Sequence

from .programs import PLACE
from .step import JobStep
from .words import BRANCH, Word, join


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
        told, first_told = (
            {n: w.text for n, w in _trainer_words(s).items()} for s in (step, first)
        )
        here, there = (first_told, told) if step.remote else (told, first_told)
        lacks = [name for name in here if name not in there and first.remote != step.remote]
        other = _varies(step) or here != {**there, **{name: here[name] for name in lacks}}
        if is_part(step) and other and not first.problems:
            text = "it is started by hand on each node, with other words or variables on each"
            first.problems.append((first.line, text))
        elif lacks:
            first.notes.append((step.line, f"by ssh it does not get {', '.join(lacks)}"))
    return kept


def _together(one: JobStep, other: JobStep) -> bool:
    """Whether two parts are of one launch: those of one loop, and an agent beside it."""
    loops = {one.command.loops, other.command.loops}
    return len(loops) == 1 or bool(0 in loops and one.agent and other.agent)


def _varies(step: JobStep) -> bool:
    """Whether what a step starts differs from round to round of its loop."""
    pieces = (piece for word in _trainer_words(step).values() for piece in word.unknown)
    return any(p.kind == BRANCH and p.line >= step.command.loops for p in pieces)


def _trainer_words(step: JobStep) -> dict[str, Word]:
    """What the trainer is told: its words, by "", and variables but those of its place."""
    words = join((*step.program, *(() if step.agent else step.shell)), " ", step.line)
    variables = {**step.outside.exports, **step.env}
    return {"": words, **{name: v for name, v in variables.items() if name not in PLACE}}
