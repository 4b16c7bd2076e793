"""The head of a script: what the scheduler reads, what was chosen, where it runs. Pure."""

from __future__ import annotations

import shlex

from .. import __version__
from ..core.job_record import JobPaths
from ..core.model import Plan
from ..schedulers import SCHEDULERS


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the first lines, which the scheduler reads."""
    scheduler = SCHEDULERS[plan.scheduler]
    return [scheduler.SHEBANG, *scheduler.directives(plan, paths, cwd)]


def header(plan: Plan, paths: JobPaths, cwd: str, by_hand: str = "") -> list[str]:
    """Return how it is started again, all choices with their reasons, and the run's folder."""
    scheduler = SCHEDULERS[plan.scheduler]
    by_hand = by_hand or scheduler.by_hand(paths)
    again = [f"# Submit it again by hand: {by_hand}"] if by_hand else []
    choices = [f"{c.id}: {c.text} ({c.reason})" for c in plan.choices]
    return [
        f"# Written by runner {__version__}.",
        *again,
        # A line break in a value must not end the comment.
        *("# " + " ".join(text.splitlines()) for text in choices),
        f"run={shlex.quote(str(paths.root))}",
        *scheduler.opening(plan, paths, cwd),
    ]


def of_enter(paths: JobPaths, cwd: str) -> list[str]:
    """Return the head of the script that runs a command in a run's container."""
    return [
        "#!/bin/bash",
        f"# Written by runner {__version__}: a command in the container of this run.",
        f"# bash {shlex.quote(str(paths.enter))} COMMAND [ARG]...",
        f"run={shlex.quote(str(paths.root))}",
        f"cd {shlex.quote(cwd)} || exit",
    ]
