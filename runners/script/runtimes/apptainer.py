"""Apptainer and Singularity: `apptainer exec ... IMAGE`; Singularity 3.8 and newer reads the same.

The job's environment goes into the container by itself, except for LD_LIBRARY_PATH.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan, Variable
from ..stage_lines import image
from .base import Runtime


class Apptainer(Runtime):
    """apptainer or singularity exec."""

    takes_ssh = True

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command; `fixed` goes by `exports`."""
        command = [plan.runtime, "exec"]
        command += ["--nv"] * plan.nv + ["--rocm"] * plan.rocm
        for bind in binds:
            command += bind_argv(bind)
        return [*command, *plan.runtime_args, *plan.spec.apptainer_args, image(plan)]

    def exports(
        self, plan: Plan, defaults: tuple[Variable, ...], fixed: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Return the variables that become others in the container, with the text of their values.

        NO_EVAL: otherwise a shell would expand each value (Singularity understands it from 3.10).
        """
        program = plan.runtime.upper()
        lines = [(f"{program}_NO_EVAL", "1")]
        for variable in defaults:
            # The user's own, be it exported for the container or for everything, comes first.
            own = f"{program}ENV_{variable.name}"
            lines.append((own, tokens.default(variable.value, own, variable.name)))
        return lines + [
            (f"{program}ENV_{name}", tokens.quote(value)) for name, value in fixed.items()
        ]

    def own(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the variables that become the user's own in the container."""
        return [(f"{plan.runtime.upper()}ENV_{n}", tokens.quote(v)) for n, v in plan.spec.env]


def bind_argv(bind: BindMount) -> list[str]:
    """Return the option for one mount; paths with `,` or `:` need --mount, which reads CSV."""
    if any(char in bind.source + bind.target for char in ',:"\n'):
        return ["--mount", mount(bind)]
    modes = ",".join(_modes(bind))
    text = f":{bind.target}" + (f":{modes}" if modes else "")
    return ["--bind", tokens.followed(bind.source, text)]


def _modes(bind: BindMount) -> list[str]:
    """Return the options of a mount; image-src is the runtime's own (Singularity 3.7 and newer)."""
    source = [f"image-src={bind.image_src}"] if bind.image_src else []
    return source + ["ro"] * bind.read_only


def mount(bind: BindMount) -> str:
    """Return a mount as one line of CSV, which Apptainer, Podman and Docker read."""
    fields = ["type=bind", f"source={bind.source}", f"destination={bind.target}"]
    text = io.StringIO()
    # Before Python 3.13 only the characters of the line's own end are quoted.
    csv.writer(text, lineterminator="\r\n").writerow(fields + _modes(bind))
    return text.getvalue()[:-2]
