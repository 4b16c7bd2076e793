"""Plan -> the text of a job's scripts: the sections of each, in their order. Pure.

What a section says stands in the module of its name; tokens become text in core/quoting.
"""

from __future__ import annotations

import shlex

from ..core.job_record import JobPaths
from ..core.model import LauncherName
from ..core.plan import Plan
from ..core.version import __version__
from ..schedulers import SCHEDULERS
from . import environment, exit_trap, ranks, stage_lines


def render(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the script of a job that trains; `cwd` is the folder in which it runs."""
    return joined(
        directives(plan, paths, cwd),  # what the scheduler reads
        header(plan, paths, cwd),  # the choices, the run's folder
        exit_trap.opening(plan),  # how it ends, whatever comes
        ranks.image_check(plan),
        environment.modules(plan),
        stage_lines.of(plan, paths),
        environment.lines(plan, paths),
        ([*environment.NO_STEP] if plan.launching.launcher is LauncherName.HOROVODRUN else []),
        ranks.host_mpi_check(plan, paths),
        ranks.prepare(plan),
        ranks.ssh_nodes(plan),
        exit_trap.around(plan, ranks.command(plan, paths)),
    )


def enter(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the script that runs a command as the ranks run: in their image, with their mounts.

    It is started by hand, by a step beside the ranks, or by a job that has none.
    """
    return joined(
        [
            "#!/bin/bash",
            f"# Written by runner {__version__}: a command in the container of this run.",
            f"# bash {shlex.quote(str(paths.enter))} COMMAND [ARG]...",
            f"run={shlex.quote(str(paths.root))}",
            f"cd {shlex.quote(cwd)} || exit",
        ],
        stage_lines.found_again(plan),
        ranks.image_check(plan),
        [*environment.modules(plan), *environment.NO_STEP],
        environment.lines(plan, paths),
        [ranks.one(plan, paths)],
    )


def joined(*sections: list[str]) -> str:
    """Return the sections, of which some are empty, with a blank line between."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the lines that the scheduler reads, after that which names the shell."""
    scheduler = SCHEDULERS[plan.launching.scheduler]
    return [scheduler.SHEBANG, *scheduler.directives(plan, paths, cwd)]


def header(plan: Plan, paths: JobPaths, cwd: str, at_terminal: str = "") -> list[str]:
    """Return how it is started again, all choices with their reasons, and the run's folder."""
    scheduler = SCHEDULERS[plan.launching.scheduler]
    by_hand = at_terminal or scheduler.by_hand(paths)
    again = [f"# Submit it again by hand: {by_hand}"] if by_hand else []
    choices = [f"{c.id}: {c.text} ({c.reason})" for c in plan.choices]
    return [
        f"# Written by runner {__version__}.",
        *again,
        # A line break in a value must not end the comment.
        *("# " + " ".join(text.splitlines()) for text in choices),
        f"run={shlex.quote(str(paths.root))}",
        *scheduler.opening(plan, paths, cwd, bool(at_terminal)),
    ]
