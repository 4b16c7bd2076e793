"""All that is wrong with a launch as one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.diagnosis import Diagnosis
from ..core.errors import Refused, RunnerError, UsageError
from ..core.plan import ChoiceId, Plan
from ..core.remedy import COMMAND, LAUNCH, Remedy, change
from ..images.local_image import ImageMissing
from ..planning import search


def error(problems: Sequence[RunnerError], made: Plan) -> RunnerError:
    """Return what was found before a plan was made, and why the plan is refused, as one error.

    It is the user's mistake (exit code 2) if one of them is.
    """
    for problem in problems:
        problem.change(remedies=tuple(_with_gpus(remedy, made) for remedy in problem.remedies))
    if len(problems) == 1 and not made.refusals:
        return problems[0]
    mistaken = any(isinstance(problem, UsageError) for problem in problems)
    told = [replace(problem.diagnosis, remedies=_remedies(problem)) for problem in problems]
    return refused([*told, *made.refusals], UsageError if mistaken else Refused)


def refused(refusals: Sequence[Diagnosis], kind: type[RunnerError] = Refused) -> RunnerError:
    """Return several reasons as one error."""
    first, *others = refusals
    evidence = [first.evidence]
    for refusal in others:
        evidence += [f"also: {refusal.what}", refusal.evidence]
    text = "\n".join(line for line in evidence if line)
    error = kind(first.what, text, search.combined(refusals), first.id)
    error.faults = tuple(refusals)
    return error


def _remedies(problem: RunnerError) -> tuple[Remedy, ...]:
    """Return an error's remedies; the command that brings an image stands before the launch."""
    if not isinstance(problem, ImageMissing) or not problem.expected.unbuilt:
        return problem.remedies
    return tuple(
        change(first=remedy.text) if remedy.kind == COMMAND else remedy
        for remedy in problem.remedies
    )


def _with_gpus(remedy: Remedy, made: Plan) -> Remedy:
    """Return a launch of the same image from a store, whose labels nobody reads, with its GPUs."""
    gpus = [
        (choice.id, choice.value) for choice in made.choices if choice.id is ChoiceId.GPUS_PER_NODE
    ]
    if remedy.kind != LAUNCH or not gpus or "image" not in dict(remedy.options):
        return remedy
    return replace(remedy, options=(*remedy.options, *((str(name), str(n)) for name, n in gpus)))
