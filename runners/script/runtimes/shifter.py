"""Shifter, NERSC's: images are names in its own store, `docker:NAME:TAG`. Rendered, not run here.

From its manual (shifter.readthedocs.io, docs.nersc.gov): the job's environment goes into the
container, below the image's own variables; --env wins over both. The site mounts home, scratch
and the project folders itself, under their own paths, and lets nobody mount over them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan
from .base import Runtime, own_settings


class Shifter(Runtime):
    """shifter --image=NAME."""

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command."""
        command = ["shifter", f"--image={plan.spec.image}"]
        if plan.nv and not any(arg.startswith("--module") for arg in plan.runtime_args):
            command.append("--module=gpu")
        command += plan.runtime_args
        command += [f"--volume={volume(bind)}" for bind in binds if bind.source != bind.target]
        command += [tokens.prefixed(f"--env={name}=", value) for name, value in fixed.items()]
        command += [tokens.prefixed("--env=", text) for text in own_settings(plan)]
        return [*command, *plan.spec.apptainer_args]


def volume(bind: BindMount) -> str:
    """Return SOURCE:TARGET, with the flag `ro`; several would stand apart by `;`."""
    return f"{bind.source}:{bind.target}" + (":ro" if bind.read_only else "")
