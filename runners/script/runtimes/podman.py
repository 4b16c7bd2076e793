"""Podman without root, and NERSC's podman-hpc: images are names in a store of each user's.

Nothing of the job's environment goes into the container by itself; --env NAME takes a variable
along, --env PREFIX* all that begin so. Podman ran here as 5.4.2 (tests/real/test_oci.py).
podman-hpc is rendered, not run, from its manual and its modules (github.com/NERSC/podman-hpc,
etc/modules.d): --mpi brings Cray's MPICH with the network and process namespaces of the host.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core import tokens
from ...core.model import BindMount, Plan
from ...core.tokens import Expanded
from .apptainer import mount
from .base import Runtime, own_settings

# The launcher's, and those by which users tune what runs in the container.
PASSED = ("SLURM_*", "PMI_*", "PMIX_*", "PALS_*", "CUDA_*", "NCCL_*", "FI_*", "HOROVOD_*", "UCX_*")
MODULES = ("--mpi", "--cuda-mpi", "--openmpi-pmi2", "--openmpi-pmix")
PULL = 'podman image exists "$1" || podman pull --quiet "$1"'


class PodmanHpc(Runtime):
    """podman-hpc run."""

    def argv(self, plan: Plan, binds: tuple[BindMount, ...], fixed: Mapping[str, str]) -> list[str]:
        """Return the tokens before the command."""
        command = [*self.run(plan), *plan.runtime_args]
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

    def run(self, plan: Plan) -> list[str]:
        """Return the command with the options that are always the same."""
        return ["podman-hpc", "run", "--rm", *["--gpu"] * plan.nv, *_network(plan)]


class Podman(PodmanHpc):
    """podman run, which leaves its processes in the control groups of Slurm's step.

    PMIx wants to see the user's own number in the container, and its files in /tmp. The trainer is
    looked for in the job's folder.
    """

    def run(self, plan: Plan) -> list[str]:
        """Return the command with the options that are always the same."""
        command = ["podman", "run", "--rm", "--network=host", "--ipc=host"]
        command += ["--userns=keep-id", "--cgroups=disabled", "--security-opt=label=disable"]
        command += ["--entrypoint="]  # as apptainer exec, which leaves out the run script
        command += ["--device=nvidia.com/gpu=all"] * plan.nv
        command += ["--volume", "/tmp:/tmp", "--volume", Expanded("$PWD:$PWD")]
        return [*command, "--workdir", Expanded("$PWD")]

    def prepare(self, plan: Plan) -> list[str]:
        """Return what pulls the image, which several ranks at once would do several times."""
        return ["sh", "-c", PULL, "sh", str(plan.spec.image)]


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
