"""Every variable that a job exports, each with its value as bash reads it. Pure."""

from __future__ import annotations

import shlex

from ..core import tokens
from ..core.model import Plan
from . import runtimes


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
    return [name for name, _ in exports(plan, "")]
