"""The request: what the user asks for, and the image. Frozen; changed with dataclasses.replace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..contract.enums import Controller, WordEnum
from .command_line import Given
from .diagnosis import Diagnosis
from .trainer import Profiling, Trainer, Tuning


class ImageAccess(WordEnum):
    """How the ranks of a node read the image: the values of --stage-image, less `auto`."""

    IN_PLACE = "none"
    COPIED = "node-local"
    UNPACKED = "unpack"
    MOUNTED = "mount"

    @property
    def leaves_shared(self) -> bool:
        """Whether nodes read the shared file while the job runs."""
        return self in (ImageAccess.IN_PLACE, ImageAccess.MOUNTED)


class DataAccess(WordEnum):
    """How the ranks of a node read the data: the values of --stage-data, less `auto`."""

    IN_PLACE = "none"
    COPIED = "node-local"


class SchedulerName(WordEnum):
    """Who queues a job, in the order in which they are looked for; the last two queue none."""

    SLURM = "slurm"
    COBALT = "cobalt"
    PBS = "pbs"
    ALLOCATION = "allocation"
    LOCAL = "local"


class RuntimeName(WordEnum):
    """What runs an image, in the order looked for; NONE for an environment in its place."""

    APPTAINER = "apptainer"
    SINGULARITY = "singularity"
    SHIFTER = "shifter"
    PODMAN_HPC = "podman-hpc"
    PODMAN = "podman"
    NONE = "none"


class LauncherName(WordEnum):
    """What starts the ranks; AGENTS by an agent on each node."""

    SRUN = "srun"
    MPIRUN = "mpirun"
    MPIEXEC = "mpiexec"
    HOROVODRUN = "horovodrun"
    LOCAL = "local"
    TORCHRUN = "torchrun"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"


AGENTS = (LauncherName.TORCHRUN, LauncherName.ACCELERATE, LauncherName.DEEPSPEED)


class DataPlane(WordEnum):
    """What carries the gradients: NCCL, TensorFlow's gRPC, or the CPU transport."""

    NCCL = "nccl"
    GRPC = "grpc"
    MPI = "mpi"
    GLOO = "gloo"
    NONE = "none"


class GpuVendor(WordEnum):
    """Whose GPUs, and whose driver in the container: Apptainer's --nv and --rocm."""

    NVIDIA = "nvidia"
    AMD = "amd"


class MpiFlavour(WordEnum):
    """Whose MPI it is, by the label mpi.flavour."""

    OPEN_MPI = "openmpi"
    MPICH = "mpich"
    INTEL_MPI = "intelmpi"


@dataclass(frozen=True)
class Resources:
    """What is asked of the scheduler, spelled as Slurm's long options; None is "not asked"."""

    nodes: int = 1
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: str | None = None
    gpus_per_node: str | None = None
    gpus_per_task: str | None = None
    gres: str | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    mem: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    exclusive: bool = False
    overcommit: bool = False
    distribution: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    comment: str | None = None

    @property
    def tasks(self) -> int:
        if self.ntasks is not None:
            return self.ntasks
        return self.nodes * (self.ntasks_per_node or 1)

    @property
    def tasks_of_a_node(self) -> int:
        """The number of ranks on the fullest node."""
        return -(-self.tasks // self.nodes)

    @property
    def wants_gpus(self) -> bool:
        number = self.gpus or self.gpus_per_node or self.gpus_per_task
        return bool(number or "gpu" in (self.gres or ""))


@dataclass(frozen=True)
class InRun:
    """A file or folder of the run's own folder, by its name there."""

    name: str


@dataclass(frozen=True)
class Staged:
    """What was copied to each node's own disk, by its name among what is staged."""

    name: str


@dataclass(frozen=True)
class BindMount:
    """A host path that appears in the container at `target`, read-only or not.

    With `image_src` the source is a squashfs file, of which that folder appears, such as "/".
    """

    source: str | Staged
    target: str
    read_only: bool = False
    image_src: str = ""


@dataclass(frozen=True)
class Dataset:
    """A folder, or a squashfs file, of data for the job. `name` is "" for the only one, at /data.

    `origin` says what its name was, "" where the path was given. `size` in bytes and `files` are
    known where the plan needs them; `at_least` when counting was given up.
    """

    name: str
    path: Path
    squashfs: bool = False
    origin: str = ""
    size: int = 0
    files: int = 0
    at_least: bool = False

    @property
    def entry(self) -> str:
        """The name of the data's copy in the folder that holds a node's staged data."""
        return (self.name or "data") + (".sqsh" if self.squashfs else "")


BY_MODULES = "--module"
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")  # which environment is active


@dataclass(frozen=True)
class ImageInfo:
    """What is known of an image: its labels, and for one that is not ours what was found inside.

    `inspected` holds facts under the names of our labels; `fact` reads both. A pulled image has the
    `source` that it came from and the `digest` of its file. The `architecture` is in Go's words,
    such as amd64; empty if unknown. `problem` says why the image could not be looked into.
    `brought_by` says what brings an environment that nobody named: BY_MODULES, whose Python each
    node finds on its PATH, or the variable that names the active one.
    `unbuilt` is the command that brings an image of ours which is not here; its labels are those
    that its definition and lock will give it.
    Of a file, `size` is in bytes, `offset` is where in it the squashfs begins, 0 when there is none
    to unpack, and `filesystem` is the kind that it lies on, in the kernel's words, such as nfs4.
    """

    path: Path
    labels: dict[str, str] = field(default_factory=dict)
    source: str = ""
    digest: str = ""
    architecture: str = ""
    inspected: dict[str, str] = field(default_factory=dict)
    problem: Diagnosis | None = None
    brought_by: str = ""
    unbuilt: str = ""
    size: int = 0
    offset: int = 0
    filesystem: str = ""

    @property
    def ours(self) -> bool:
        """Whether its labels tell what is in it."""
        return "horovod.version" in self.labels

    @property
    def mpi(self) -> MpiFlavour | None:
        """Whose MPI is in it; None for none, and where that is not known."""
        return MpiFlavour.of(self.fact("mpi.flavour"))

    def fact(self, name: str) -> str:
        """Return a fact such as "mpi.version", "" when unknown and "none" when not in the image."""
        return self.labels.get(name) or self.inspected.get(name, "")

    def how(self, name: str) -> str:
        """Return what a fact rests on, in words, such as `its label mpi.version is 4.1.4`."""
        if self.labels.get(name):
            return f"its label {name} is {self.labels[name]}"
        if self.inspected.get(name):
            return f"inspecting it, {name} is {self.inspected[name]}"
        return f"{name} is unknown" + (f": {self.problem.what}" if self.problem else "")

    def listed(self, name: str) -> tuple[str, ...]:
        """Return a comma-separated fact as a tuple, empty when absent or "none"."""
        return tuple(part for part in self.fact(name).split(",") if part not in ("", "none"))


@dataclass(frozen=True)
class JobSpec:
    """What the user asks for, after all sources of settings were merged; the image is resolved.

    Where `scheduler`, `runtime`, `launcher`, `controller`, `stage_data` or `stage_image` is None
    the plan chooses. `signal` is the seconds before the time limit in which the ranks are warned;
    `settings` are those of which this was made, with their origins.
    """

    name: str
    image: ImageInfo
    trainer: Trainer
    resources: Resources
    runs_dir: Path
    scheduler: SchedulerName | None = None
    runtime: RuntimeName | None = None
    launcher: LauncherName | None = None
    controller: Controller | None = None
    mpi: str | None = None
    host_mpi: bool = False
    cpu_bind: str | None = None
    network_interfaces: tuple[str, ...] = ()
    tuning: Tuning = field(default_factory=Tuning)
    profiling: Profiling | None = None
    nv: bool | None = None
    rocm: bool | None = None
    data: tuple[Dataset, ...] = ()
    stage_data: DataAccess | None = DataAccess.IN_PLACE
    stage_image: ImageAccess | None = ImageAccess.IN_PLACE
    gate: bool = True
    tf_config: bool = False
    output: str | None = None
    error: str | None = None
    requeue: bool | None = None
    requeue_limit: int | None = None
    signal: int | None = None
    binds: tuple[BindMount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    modules: tuple[str, ...] = ()
    module_use: tuple[str, ...] = ()
    module_purge: bool = False
    sbatch_args: tuple[str, ...] = ()
    srun_args: tuple[str, ...] = ()
    apptainer_args: tuple[str, ...] = ()
    settings: tuple[Given, ...] = ()
