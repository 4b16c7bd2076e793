"""Enroot without pyxis: `enroot start IMAGE.sqsh`, by each rank. Rendered, not run here.

From its manual (github.com/NVIDIA/enroot, doc/cmd/start.md): a configuration script says what of
the host's environment goes into the container, what is mounted, and what starts the command.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan
from ...core.tokens import Expanded
from .pyxis import Pyxis

CONFIGURATION = """\
# The job's variables, each rank's among them; what is mounted; the command as it is.
environ() {{ env; }}
mounts() {{
{mounts}
}}
rc() {{ exec "$@"; }}
"""
THERE = 'cd -- "$0" && exec "$@"'


class Enroot(Pyxis):
    """enroot start, with the variables of the job as pyxis has them."""

    by_srun = False
    config_file = "code/enroot.conf"

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command, which starts in the job's folder."""
        command = ["enroot", "start", "--conf", Expanded(f"$run/{self.config_file}")]
        command += [*plan.runtime_args, *plan.spec.apptainer_args, str(plan.spec.image)]
        return [*command, "sh", "-c", THERE, Expanded("$PWD")]

    def config(self, plan: Plan, binds: tuple[BindMount, ...], names: list[str]) -> str:
        """Return the configuration script."""
        lines = [f"  echo {tokens.quote(_mount(bind))}" for bind in binds]
        return CONFIGURATION.format(mounts="\n".join(lines))


def _mount(bind: BindMount) -> str:
    """Return a line of fstab; limits.py refuses paths with what stands between its fields."""
    options = "x-create=auto,rbind" + (",ro" if bind.read_only else "")
    return f"{bind.source} {bind.target} none {options}"
