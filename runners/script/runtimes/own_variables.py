"""The user's own variables, for runtimes that take values as options of the command line. Pure.

They are exported under a name that means nothing to the host's programs, such as the runtime.
"""

from __future__ import annotations

from ...core import tokens
from ...core.model import Plan
from ...core.tokens import Expanded

PREFIX = "USERENV_"


def exports(plan: Plan) -> list[tuple[str, str]]:
    """Return the variables that hold the values."""
    return [(PREFIX + name, tokens.quote(value)) for name, value in plan.spec.env]


def settings(plan: Plan) -> list[str]:
    """Return NAME=VALUE for each, as a token in which the job's shell fills in the value."""
    return [Expanded(f"{name}=${{{PREFIX}{name}}}") for name, _ in plan.spec.env]
