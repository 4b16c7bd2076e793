"""A plan for programs: its choices and script, why it is refused, what works instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from ..core import diagnosis, quoting
from ..core.command_line import CommandLine
from ..core.diagnosis import Diagnosis
from ..core.plan import Plan
from ..core.remedy import LAUNCH, Remedy
from ..settings import suggest
from . import run_folder, working_remedies


def document(made: Plan, typed: CommandLine) -> dict[str, Any]:
    """Return a plan as `runner plan --json` prints it; `typed` is the command that asked for it."""
    working = working_remedies.instead(made, typed)
    resolved = partial(suggest.as_json, typed=typed)
    return diagnosis.document(
        [diagnosis.as_data(found, resolved) for found in _found(made, working, typed)],
        works=not made.refusals,
        remedies=[resolved(remedy) for remedy in working],
        choices=[asdict(choice) for choice in made.choices],
        variables=[
            {**asdict(variable), "value": quoting.path(variable.value)}
            for variable in made.variables
        ],
        script=run_folder.draft(made).text,
    )


def _found(made: Plan, working: Collection[Remedy], typed: CommandLine) -> Iterator[Diagnosis]:
    """Yield why a plan is refused and what it warns of, each with what works of its remedies."""
    for refusal in made.refusals:
        yield replace(
            refusal,
            remedies=tuple(
                remedy for remedy in refusal.remedies if remedy.kind != LAUNCH or remedy in working
            ),
        )
    for warning in made.warnings:
        yield replace(warning, remedies=tuple(working_remedies.against(warning, typed)))
