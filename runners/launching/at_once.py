"""All that is wrong with a launch as one error."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import Refused, RunnerError, UsageError
from ..core.plan import Refusal
from ..core.remedy import COMMAND, Remedy, change
from ..images.local_image import ImageMissing
from . import suggest


def error(problems: Sequence[RunnerError], refusals: Sequence[Refusal]) -> RunnerError:
    """Return what was found before a plan was made, and why the plan is refused, as one error.

    It is the user's mistake (exit code 2) if one of them is.
    """
    if len(problems) == 1 and not refusals:
        return problems[0]
    mistaken = any(isinstance(each, UsageError) for each in problems)
    told = [Refusal(each.what, each.evidence, _remedies(each)) for each in problems]
    return suggest.refused([*told, *refusals], UsageError if mistaken else Refused)


def _remedies(problem: RunnerError) -> tuple[Remedy, ...]:
    """Return an error's remedies; the command that brings an image stands before the launch."""
    if not isinstance(problem, ImageMissing) or not problem.expected.unbuilt:
        return problem.remedies
    return tuple(
        change(first=each.text) if each.kind == COMMAND else each for each in problem.remedies
    )
