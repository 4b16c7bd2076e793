"""Pyxis, NVIDIA's plugin for Slurm: the container is options of srun. Rendered, not run here.

From its README (github.com/NVIDIA/pyxis): the job's environment goes into the container, below the
image's own variables; those named in --container-env win over both. Enroot writes a registry's name
as REGISTRY#IMAGE:TAG; an image may also be a .sqsh file.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan, Variable
from ...core.tokens import Expanded
from .base import Runtime


class Pyxis(Runtime):
    """srun --container-image=NAME."""

    by_srun = True

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the options of srun, which stand after its others."""
        mounts = ",".join(mount(bind) for bind in binds)
        names = ",".join([*fixed, *(name for name, _ in plan.spec.env)])
        return [
            f"--container-image={image(str(plan.spec.image))}",
            f"--container-mounts={mounts}",
            Expanded("--container-workdir=$PWD"),
            f"--container-env={names}",
            *plan.runtime_args,
            *plan.spec.apptainer_args,
        ]

    def exports(
        self, plan: Plan, defaults: tuple[Variable, ...], fixed: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Return the job's own variables, which go into the container under their names."""
        lines = super().exports(plan, defaults, fixed)
        return lines + [(name, tokens.quote(value)) for name, value in fixed.items()]

    def own(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the user's own variables."""
        return [(name, tokens.quote(value)) for name, value in plan.spec.env]


def image(name: str) -> str:
    """Return the name as Enroot wants it: a registry's host apart from the rest by #."""
    host, slash, rest = name.partition("/")
    is_host = bool(slash) and bool(host) and "#" not in name and any(c in host[1:] for c in ".:")
    return f"{host}#{rest}" if is_host else name


def mount(bind: BindMount) -> str:
    """Return SOURCE:TARGET, with the flag `ro`."""
    return f"{bind.source}:{bind.target}" + (":ro" if bind.read_only else "")
