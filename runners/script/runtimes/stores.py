"""Runtimes whose images are names in a store: Podman, NERSC's podman-hpc, Shifter, pyxis.

Podman and podman-hpc: images are names in a store of each user's. Nothing of the job's environment
goes into the container by itself; --env NAME takes a variable along, --env PREFIX* all that begin
so. Podman ran here as 5.4.2 (tests/real/test_oci.py). podman-hpc is rendered, not run, from its
manual and its modules (github.com/NERSC/podman-hpc, etc/modules.d): --mpi brings Cray's MPICH with
the network and process namespaces of the host.

Shifter: images are names in its own store, `docker:NAME:TAG`. Rendered, not run here, from its
manual (shifter.readthedocs.io, docs.nersc.gov): the job's environment goes into the container,
below the image's own variables; --env wins over both. The site mounts home, scratch and the project
folders itself, under their own paths, and lets nobody mount over them.

Pyxis, NVIDIA's plugin for Slurm, is options of srun, after its others. Rendered, not run here, from
its README (github.com/NVIDIA/pyxis): the job's environment goes into the container, below the
image's own variables; those named in --container-env win over both. It writes a registry's name as
REGISTRY#IMAGE:TAG; an image may also be a .sqsh file.
"""

from __future__ import annotations

from ...core import tokens
from ...core.plan import Plan
from ...core.tokens import Expanded
from .apptainer import SPECIAL, mount
from .base import Container, own_values, volume

# The launcher's, and those by which users tune what runs in the container.
PASSED = ("SLURM_*", "PMI_*", "PMIX_*", "PALS_*", "CUDA_*", "NCCL_*", "FI_*", "HOROVOD_*", "UCX_*")
MODULES = ("--mpi", "--cuda-mpi", "--openmpi-pmi2", "--openmpi-pmix")
# Several ranks at once would pull an image several times.
PULL = ("sh", "-c", 'podman image exists "$1" || podman pull --quiet "$1"', "sh")


def podman(container: Container) -> list[str]:
    """Return podman run, which leaves its processes in the control groups of Slurm's step.

    PMIx wants to see the user's own number in the container, and its files in /tmp. The trainer is
    looked for in the job's folder.
    """
    command = ["podman", "run", "--rm", "--network=host", "--ipc=host"]
    command += ["--userns=keep-id", "--cgroups=disabled", "--security-opt=label=disable"]
    command += ["--entrypoint="]  # as apptainer exec, which leaves out the run script
    command += ["--device=nvidia.com/gpu=all"] * container.plan.gpus.nv
    command += ["--volume", "/tmp:/tmp", "--volume", Expanded("$PWD:$PWD")]
    return [*command, "--workdir", Expanded("$PWD"), *_podman_options(container)]


def podman_hpc(container: Container) -> list[str]:
    plan = container.plan
    command = ["podman-hpc", "run", "--rm", *["--gpu"] * plan.gpus.nv, *_network(plan)]
    return [*command, *_podman_options(container)]


def _podman_options(container: Container) -> list[str]:
    plan = container.plan
    options = [*plan.runtime_args]
    for bind in container.binds:
        odd = any(char in str(bind.source) + bind.target for char in SPECIAL)
        options += ["--mount", mount(bind)] if odd else ["--volume", volume(bind)]
    variables = [*PASSED, *(variable.name for variable in plan.variables)]
    variables += [tokens.prefixed(f"{n}=", value) for n, value in container.fixed.items()]
    for variable in variables:
        options += ["--env", variable]
    return [*options, *plan.spec.apptainer_args, str(plan.spec.image.path), *own_values(plan)]


def _network(plan: Plan) -> list[str]:
    """Return how ranks reach each other: by the module for their MPI, or on the host's network."""
    if any(arg in MODULES for arg in plan.runtime_args):
        return []
    if plan.wireup.controller == "mpi":
        return ["--openmpi-pmix" if (plan.wireup.mpi or "").startswith("pmix") else "--mpi"]
    return ["--network=host", "--ipc=host"]


def shifter(container: Container) -> list[str]:
    plan = container.plan
    command = ["shifter", f"--image={plan.spec.image.path}"]
    if plan.gpus.nv and not any(arg.startswith("--module") for arg in plan.runtime_args):
        command.append("--module=gpu")
    command += plan.runtime_args
    command += [f"--volume={volume(b)}" for b in container.binds if b.source != b.target]
    command += [tokens.prefixed(f"--env={name}=", v) for name, v in container.fixed.items()]
    return [*command, *plan.spec.apptainer_args, *own_values(plan)]


def pyxis(container: Container) -> list[str]:
    plan = container.plan
    names = ",".join([*container.fixed, *(name for name, _ in plan.spec.env)])
    return [
        f"--container-image={_pyxis_name(str(plan.spec.image.path))}",
        f"--container-mounts={','.join(map(volume, container.binds))}",
        Expanded("--container-workdir=$PWD"),
        f"--container-env={names}",
        *container.own_arguments,
    ]


def _pyxis_name(image: str) -> str:
    """Return the name as pyxis wants it: a registry's host apart from the rest by #."""
    host, slash, rest = image.partition("/")
    is_host = bool(slash) and bool(host) and "#" not in image and any(c in host[1:] for c in ".:")
    return f"{host}#{rest}" if is_host else image
