"""Podman-HPC, NERSC's: images are names in its own store. Rendered, not run here.

From its manual and its modules (github.com/NERSC/podman-hpc, etc/modules.d): nothing of the job's
environment goes into the container by itself; --env NAME takes a variable along, --env PREFIX*
all that begin so. --mpi brings Cray's MPICH with the network and process namespaces of the host.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan
from .apptainer import mount
from .base import Runtime, own_settings

# The launcher's, and those by which users tune what runs in the container.
PASSED = ("SLURM_*", "PMI_*", "PMIX_*", "PALS_*", "CUDA_*", "NCCL_*", "FI_*", "HOROVOD_*", "UCX_*")
MODULES = ("--mpi", "--cuda-mpi", "--openmpi-pmi2", "--openmpi-pmix")


class PodmanHpc(Runtime):
    """podman-hpc run."""

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command."""
        command = ["podman-hpc", "run", "--rm", *["--gpu"] * plan.nv, *_network(plan)]
        command += plan.runtime_args
        for bind in binds:
            command += _bind(bind)
        names = [variable.name for variable in plan.variables]
        for passed in (*PASSED, *names):
            command += ["--env", passed]
        for name, value in fixed.items():
            command += ["--env", tokens.prefixed(f"{name}=", value)]
        for setting in own_settings(plan):
            command += ["--env", setting]
        return [*command, *plan.spec.apptainer_args, str(plan.spec.image)]


def _network(plan: Plan) -> list[str]:
    """Return how ranks reach each other: by the module for their MPI, or on the host's network."""
    if any(arg in MODULES for arg in plan.runtime_args):
        return []
    if plan.controller == "mpi":
        return ["--openmpi-pmix" if (plan.mpi or "").startswith("pmix") else "--mpi"]
    return ["--network=host", "--ipc=host"]


def _bind(bind: BindMount) -> list[str]:
    if any(char in bind.source + bind.target for char in ',:"\n'):
        return ["--mount", mount(bind)]
    return ["--volume", f"{bind.source}:{bind.target}" + (":ro" if bind.read_only else "")]
