"""Every variable that a job exports, each with its value as bash reads it. Pure.

The values of --env may be passwords: they stand in a file of the run's folder that only its owner
reads, and the scripts, which everybody may read, name the variables alone.
"""

from __future__ import annotations

import shlex

from ..core import tokens
from ..core.job_record import JobPaths
from ..core.model import Plan
from . import runtimes


def lines(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the script's lines: the plan's variables, then the user's own, which win."""
    found = [f"export {name}={text}" for name, text in exports(plan, str(paths.root))]
    if plan.spec.env:
        where = paths.env.relative_to(paths.root)
        names = " ".join(name for name, _ in plan.spec.env)
        found += [f"# The values of {names} stand where only their owner reads them."]
        found += [f'. "$run/{where}" || exit']
    return found


def private(plan: Plan) -> str:
    """Return the file with the user's own variables; "" where there are none."""
    return "".join(f"export {name}={text}\n" for name, text in runtimes.own(plan))


def exports(plan: Plan, run_dir: str) -> list[tuple[str, str]]:
    """Return the job's own variables, then those by which the runtime fills the container.

    Of two with one name the first is taken: the plan's own come before the site's.
    """
    found: dict[str, str] = {}
    for v in (v for v in plan.variables if v.where == "job"):
        text = shlex.quote(v.value) if v.forced else tokens.default(v.value, v.name)
        found.setdefault(v.name, text)
    return [*found.items(), *runtimes.exports(plan, run_dir)]


def names(plan: Plan) -> list[str]:
    """Return their names, for launchers that take only what they are told."""
    own = [*exports(plan, ""), *runtimes.own(plan)]
    return list(dict.fromkeys(name for name, _ in own))
