"""What runs an image: a base class, whose methods a runtime overrides where it differs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan, Variable
from ...core.tokens import Expanded

PREFIX = "USERENV_"


class Runtime:
    """What runs an image. `fixed` are the variables that win within it."""

    by_srun = False  # whether what `argv` returns are options of srun
    takes_ssh = False  # whether variables bring injob/ssh into it
    config_file = ""  # in the run's folder: what it reads besides its options

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command: none where it runs on the host."""
        return []

    def exports(
        self, plan: Plan, defaults: tuple[Variable, ...], fixed: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Return the variables that the job exports for it, with the text of their values."""
        return [(v.name, tokens.default(v.value, v.name)) for v in defaults]

    def config(self, plan: Plan, binds: tuple[BindMount, ...], names: list[str]) -> str:
        """Return the text of `config_file`; `names` are the variables for the container."""
        return ""

    def prepare(self, plan: Plan) -> list[str]:
        """Return what each node does once before the ranks."""
        return []

    def own(self, plan: Plan) -> list[tuple[str, str]]:
        """Return those by which the values of --env get in, with the text of their values.

        Where `argv` takes values as options they have a name that means nothing to the host's
        programs, such as the runtime.
        """
        return [(PREFIX + name, tokens.quote(value)) for name, value in plan.spec.env]


def own_settings(plan: Plan) -> list[str]:
    """Return NAME=VALUE for each of --env, in which the job's shell fills in the value."""
    return [Expanded(f"{name}=${{{PREFIX}{name}}}") for name, _ in plan.spec.env]


class NoRuntime(Runtime):
    """No container: the image is the folder of a virtual or conda environment, on each node."""

    takes_ssh = True

    def exports(
        self, plan: Plan, defaults: tuple[Variable, ...], fixed: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Return the job's own variables; the environment's programs come first on the PATH.

        Its activation script is not read: what that sets beyond the PATH belongs in --env.
        """
        path = tokens.quote(f"{plan.spec.image}/bin") + ':"$PATH"'
        lines = [("PATH", path), *((v.name, tokens.default(v.value, v.name)) for v in defaults)]
        return lines + [(name, tokens.quote(value)) for name, value in fixed.items()]

    def own(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the user's own variables."""
        return [(name, tokens.quote(value)) for name, value in plan.spec.env]
