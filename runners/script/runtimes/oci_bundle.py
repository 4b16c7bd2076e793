"""Slurm's own `srun --container=BUNDLE`. Rendered, not run here.

From its manual (slurm.schedmd.com/containers.html): the image is a folder with an OCI bundle on
each node, whose config.json alone says what is mounted; the site's oci.conf says what runs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.model import BindMount, Plan
from .pyxis import Pyxis


class OciBundle(Pyxis):
    """srun --container=BUNDLE, with the variables of the job as pyxis has them."""

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the options of srun, which stand after its others."""
        bundle = f"--container={plan.spec.image}"
        return [bundle, *plan.runtime_args, *plan.spec.apptainer_args]
