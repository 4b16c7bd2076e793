"""No container: the image is the folder of a virtual or conda environment, seen on each node."""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan, Variable


def argv(plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
    """Return nothing: the command runs on the host."""
    return []


def exports(
    plan: Plan, defaults: tuple[Variable, ...], fixed: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the job's own variables; the environment's programs come first on the PATH.

    Its activation script is not read: what that sets beyond the PATH belongs in --env.
    """
    path = tokens.quote(f"{plan.spec.image}/bin") + ':"$PATH"'
    lines = [("PATH", path), *((v.name, tokens.default(v.value, v.name)) for v in defaults)]
    return lines + [(name, tokens.quote(value)) for name, value in fixed.items()]


def own(plan: Plan) -> list[tuple[str, str]]:
    """Return the user's own variables."""
    return [(name, tokens.quote(value)) for name, value in plan.spec.env]
