"""Plan -> the text of the scripts: the sections of each, in their order. Pure.

What a section says stands in the module of its name; tokens become text in core/tokens.
"""

from __future__ import annotations

from ..core.job_record import JobPaths
from ..core.model import Plan
from . import checks, environment, exit_trap, head, modules, ranks, stage_lines


def render(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the script of a job that trains; `cwd` is the folder in which it runs."""
    return _text(
        head.directives(plan, paths, cwd),  # what the scheduler reads
        head.header(plan, paths, cwd),  # the choices, the run's folder
        exit_trap.opening(plan),  # how it ends, whatever comes
        checks.image(plan),
        modules.lines(plan),
        stage_lines.of(plan, paths),
        environment.lines(plan, paths),
        checks.host_mpi(plan, paths),
        exit_trap.around(plan, ranks.command(plan, paths)),
    )


def session(plan: Plan, paths: JobPaths, cwd: str, line: str, by_hand: str = "") -> str:
    """Return the script of a job that runs `line`, which goes by `enter`, and starts no ranks.

    `by_hand` is the command that starts it again, where that is not the scheduler's usual one.
    """
    return _text(
        head.directives(plan, paths, cwd),
        head.header(plan, paths, cwd, by_hand),
        exit_trap.opening(plan),
        stage_lines.of(plan, paths),
        exit_trap.around(plan, line),
    )


def enter(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the script that runs a command as the ranks run: in their image, with their mounts.

    It is started by hand, by a step beside the ranks, or by a job that has none.
    """
    return _text(
        head.of_enter(paths, cwd),
        stage_lines.found_again(plan),
        checks.image(plan),
        [*modules.lines(plan), *modules.NO_STEP],
        environment.lines(plan, paths),
        [ranks.one(plan, paths)],
    )


def _text(*sections: list[str]) -> str:
    """Return the sections, of which some are empty, with a blank line between."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"
