"""The Container Engine of CSCS (Alps): `srun --environment=FILE`. Rendered, not run here.

From its manual (docs.cscs.ch, software/container-engine): the file names image, mounts, folder and
variables, in which ${NAME} is the host's; a mount's flags stand apart by +.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...core.model import BindMount, Plan
from ...core.tokens import Expanded
from . import pyxis
from .pyxis import Pyxis


class ContainerEngine(Pyxis):
    """srun --environment=FILE, with the variables of the job as pyxis has them."""

    config_file = "code/environment.toml"

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the options of srun, which stand after its others."""
        given = [*plan.runtime_args, *plan.spec.apptainer_args]
        return [Expanded(f"--environment=$run/{self.config_file}"), *given]

    def config(self, plan: Plan, binds: tuple[BindMount, ...], names: list[str]) -> str:
        """Return the environment definition file."""
        mounts = [pyxis.mount(bind) for bind in binds]
        lines = [
            f"image = {_text(pyxis.image(str(plan.spec.image)))}",
            f"mounts = [{', '.join(map(_text, mounts))}]",
            'workdir = "${PWD}"',
            "",
            "[env]",
        ]
        return "\n".join([*lines, *(f'{name} = "${{{name}}}"' for name in names), ""])


def _text(value: str) -> str:
    """Return a string of TOML, in which JSON's are strings too."""
    return json.dumps(value)
