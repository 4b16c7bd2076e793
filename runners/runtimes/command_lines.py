"""The tokens before a command, by runtime. Pure.

Apptainer and Singularity (3.8 and newer read the same): the job's environment goes into the
container by itself, except for LD_LIBRARY_PATH. The images of the others are names in a store.

Podman and podman-hpc: a store of each user's. Nothing of the job's environment goes into the
container by itself; --env NAME takes a variable along, --env PREFIX* all that begin so. Podman ran
here as 5.4.2 (tests/real/test_oci.py). podman-hpc is rendered, not run, from its manual and its
modules (github.com/NERSC/podman-hpc, etc/modules.d): --mpi brings Cray's MPICH with the network and
process namespaces of the host.

Shifter: a store of its own, `docker:NAME:TAG`. Rendered, not run here, from its manual
(shifter.readthedocs.io, docs.nersc.gov): the job's environment goes into the container, below the
image's own variables; --env wins over both. The site mounts home, scratch and the project folders
itself, under their own paths, and lets nobody mount over them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ..contract.enums import Controller
from ..core import quoting
from ..core.job_record import JobPaths
from ..core.model import BindMount, GpuVendor, ImageAccess, Staged
from ..core.plan import Plan
from ..core.quoting import Expanded

# The variable that stands before the names in the file of --env; unset where a container reads it.
PREFIX = "RUNNER_PREFIX"
# The image's names among what is staged; no dataset can be named so.
STAGED_FILE, STAGED_FOLDER = ".image.sif", ".image"
DRIVERS = {GpuVendor.NVIDIA: "--nv", GpuVendor.AMD: "--rocm"}
SPECIAL = ',:"\n'  # what stands between the parts of --bind
# The launcher's, and those by which users tune what runs in the container.
PASSED = ("SLURM_*", "PMI_*", "PMIX_*", "PALS_*", "CUDA_*", "NCCL_*", "FI_*", "HOROVOD_*", "UCX_*")
MODULES = ("--mpi", "--cuda-mpi", "--openmpi-pmi2", "--openmpi-pmix")
# Several ranks at once would pull an image several times.
PULL = ("sh", "-c", 'podman image exists "$1" || podman pull --quiet "$1"', "sh")


@dataclass(frozen=True)
class Container:
    """What is to be in the container; `fixed` are the variables that win within it."""

    plan: Plan
    binds: tuple[BindMount, ...]
    fixed: Mapping[str, str]

    @property
    def has_nvidia(self) -> bool:
        return self.plan.gpus.vendor is GpuVendor.NVIDIA


@dataclass(frozen=True)
class Runtime:
    """What runs an image.

    `argv` returns the tokens before a command: none where it runs on the host. Its images are files
    or folders where it `has_files`; else only the runtime on a node looks into them, and `pull` is
    the command that brings one to its store.

    The variables for the container are exported under their names with `prefix` before; with
    `values_as_options` those that win are among the tokens instead, and the values of --env reach
    the command by their file (`own_values`). `takes_ssh` says whether variables bring the ssh of
    injob/ssh.py into it. `prepare` is what each node does once before the ranks, with the image's
    name as its last word. By `own_mpi` it brings the host's MPI itself; `separators` stand between
    paths in its --volume.
    """

    argv: Callable[[Container], list[str]]
    has_files: bool = False
    pull: str = ""
    prefix: str = ""
    values_as_options: bool = False
    takes_ssh: bool = False
    prepare: tuple[str, ...] = ()
    own_mpi: str = ""
    separators: str = ""


def image(plan: Plan) -> str:
    """Return where a node has the image."""
    access = plan.staging.image
    if access is ImageAccess.IN_PLACE:
        return str(plan.spec.image.path)
    return quoting.path(Staged(STAGED_FILE if access is ImageAccess.COPIED else STAGED_FOLDER))


def own_values(plan: Plan) -> list[str]:
    """Return the tokens before a command in the container that give it the variables of --env.

    They are read from their file: every user of a node sees the command lines on it.
    """
    if not plan.spec.env:
        return []
    return ["sh", "-c", '. "$0" && exec "$@"', Expanded(JobPaths(Path("$run")).env)]


def volume(bind: BindMount) -> str:
    """Return SOURCE:TARGET, with the flag `ro`, as many read it."""
    return f"{quoting.path(bind.source)}:{bind.target}" + (":ro" if bind.read_only else "")


def apptainer(container: Container) -> list[str]:
    plan = container.plan
    command = [
        plan.launching.runtime,
        "exec",
        *([DRIVERS[plan.gpus.vendor]] if plan.gpus.vendor else []),
    ]
    for bind in container.binds:
        command += bind_option(bind)
    return [*command, *plan.runtime_args, *plan.spec.apptainer_args, image(plan)]


def bind_option(bind: BindMount) -> list[str]:
    """Return the option for one mount; paths with `,` or `:` need --mount, which reads CSV."""
    source = quoting.path(bind.source)
    if any(char in source + bind.target for char in SPECIAL):
        return ["--mount", mount(bind)]
    modes = ",".join(_modes(bind))
    text = f":{bind.target}" + (f":{modes}" if modes else "")
    return ["--bind", quoting.merged(source, text)]


def _modes(bind: BindMount) -> list[str]:
    """Return the options of a mount; image-src is the runtime's own (Singularity 3.7 and newer)."""
    source = [f"image-src={bind.image_src}"] if bind.image_src else []
    return source + (["ro"] if bind.read_only else [])


def mount(bind: BindMount) -> str:
    """Return a mount as one line of CSV, which Apptainer, Podman and Docker read."""
    import csv  # here, because few paths need it

    fields = ["type=bind", f"source={quoting.path(bind.source)}", f"destination={bind.target}"]
    text = io.StringIO()
    # Before Python 3.13 only the characters of the line's own end are quoted.
    csv.writer(text, lineterminator="\r\n").writerow(fields + _modes(bind))
    return text.getvalue()[:-2]


def podman(container: Container) -> list[str]:
    """Return podman run, which leaves its processes in the control groups of Slurm's step.

    PMIx wants to see the user's own number in the container, and its files in /tmp. The trainer is
    looked for in the job's folder.
    """
    command = ["podman", "run", "--rm", "--network=host", "--ipc=host"]
    command += ["--userns=keep-id", "--cgroups=disabled", "--security-opt=label=disable"]
    command += ["--entrypoint="]  # as apptainer exec, which leaves out the run script
    command += ["--device=nvidia.com/gpu=all"] if container.has_nvidia else []
    command += ["--volume", "/tmp:/tmp", "--volume", Expanded("$PWD:$PWD")]
    return [*command, "--workdir", Expanded("$PWD"), *_podman_options(container)]


def podman_hpc(container: Container) -> list[str]:
    plan = container.plan
    command = [
        "podman-hpc",
        "run",
        "--rm",
        *(["--gpu"] if container.has_nvidia else []),
        *_network(plan),
    ]
    return [*command, *_podman_options(container)]


def _podman_options(container: Container) -> list[str]:
    plan = container.plan
    options = [*plan.runtime_args]
    for bind in container.binds:
        odd = any(char in str(bind.source) + bind.target for char in SPECIAL)
        options += ["--mount", mount(bind)] if odd else ["--volume", volume(bind)]
    variables = [*PASSED, *(variable.name for variable in plan.variables)]
    variables += [quoting.merged(f"{n}=", value) for n, value in container.fixed.items()]
    for variable in variables:
        options += ["--env", variable]
    return [*options, *plan.spec.apptainer_args, str(plan.spec.image.path), *own_values(plan)]


def _network(plan: Plan) -> list[str]:
    """Return how ranks reach each other: by the module for their MPI, or on the host's network."""
    if any(arg in MODULES for arg in plan.runtime_args):
        return []
    if plan.wireup.controller is Controller.MPI:
        return ["--openmpi-pmix" if (plan.wireup.mpi or "").startswith("pmix") else "--mpi"]
    return ["--network=host", "--ipc=host"]


def shifter(container: Container) -> list[str]:
    plan = container.plan
    command = ["shifter", f"--image={plan.spec.image.path}"]
    if container.has_nvidia and not any(arg.startswith("--module") for arg in plan.runtime_args):
        command.append("--module=gpu")
    command += plan.runtime_args
    command += [f"--volume={volume(b)}" for b in container.binds if b.source != b.target]
    command += [quoting.merged(f"--env={name}=", v) for name, v in container.fixed.items()]
    return [*command, *plan.spec.apptainer_args, *own_values(plan)]
