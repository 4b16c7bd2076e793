"""The plan of a job: decisions as typed values, and beside them the reasons for people."""

from __future__ import annotations

from dataclasses import dataclass

from ..contract.enums import Controller, WordEnum
from .diagnosis import Diagnosis
from .model import (
    BindMount,
    DataAccess,
    DataPlane,
    GpuVendor,
    ImageAccess,
    InRun,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from .remedy import Remedy
from .site import HostMpi


class ChoiceId(WordEnum):
    """What a plan chooses, by the name of its setting where there is one; stable."""

    SITE = "site"
    IMAGE = "image"
    SCHEDULER = "scheduler"
    RUNTIME = "runtime"
    LAUNCHER = "launcher"
    ARCHITECTURE = "architecture"
    NODES = "nodes"
    CONSTRAINT = "constraint"
    GPUS_PER_NODE = "gpus-per-node"
    NTASKS_PER_NODE = "ntasks-per-node"
    CPUS_PER_TASK = "cpus-per-task"
    THREADS = "threads"
    CPU_BIND = "cpu-bind"
    CPU_LEVEL = "cpu-level"
    GPU_REQUEST = "gpu-request"
    NV = "nv"
    ROCM = "rocm"
    DRIVER = "driver"
    GPU_LIBRARIES = "gpu-libraries"
    GLIBC = "glibc"
    GPU_OF_A_RANK = "gpu-of-a-rank"
    GRADIENT_TRANSPORT = "gradient-transport"
    CONTROLLER = "controller"
    MPI = "mpi"
    MPIRUN = "mpirun"
    HOST_MPI = "host-mpi"
    MPI_YIELD_WHEN_IDLE = "mpi-yield-when-idle"
    MODULE = "module"
    SSH = "ssh"
    GATE = "gate"
    TF_CONFIG = "tf-config"
    NETWORK_INTERFACES = "network-interfaces"
    TIMELINE_FILENAME = "timeline-filename"
    AUTOTUNE = "autotune"
    FUSION_THRESHOLD_MB = "fusion-threshold-mb"
    CYCLE_TIME_MS = "cycle-time-ms"
    START_TIMEOUT = "start-timeout"
    DATA = "data"
    STAGE_DATA = "stage-data"
    STAGE_IMAGE = "stage-image"
    RECIPE = "recipe"
    PROFILE_WITH = "profile-with"
    PROFILE_RANKS = "profile-ranks"
    REQUEUE = "requeue"
    SIGNAL = "signal"
    DEPENDENCY = "dependency"


class Provider(WordEnum):
    """Where a recipe comes from, or the driver's library that is found first."""

    IMAGE = "image"
    HOST = "host"


class GpuOfRank(WordEnum):
    """Which of the GPUs that it sees a rank uses."""

    LOCAL_RANK = "local-rank"
    VISIBLE = "visible"


@dataclass(frozen=True)
class Choice:
    """One choice of the plan.

    `value` is for programs, `reason` and `evidence` are for people.
    """

    id: ChoiceId
    value: str | float
    reason: str
    evidence: str = ""

    @property
    def text(self) -> str:
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return str(self.value)


class Where(WordEnum):
    """Where a variable is set: for the batch script, srun and mpirun, or in the container only."""

    JOB = "job"
    CONTAINER = "image"


@dataclass(frozen=True)
class Variable:
    """A variable of the job. What the user has exported wins, unless `forced`."""

    name: str
    value: str | InRun
    reason: str
    where: Where = Where.JOB
    forced: bool = False


@dataclass(frozen=True)
class Launching:
    """Who queues the job, what runs the image, and what starts the ranks."""

    scheduler: SchedulerName
    runtime: RuntimeName
    launcher: LauncherName


@dataclass(frozen=True)
class Wireup:
    """How the ranks find each other: Horovod's controller and srun's --mpi=, None without srun."""

    controller: Controller
    mpi: str | None = None


@dataclass(frozen=True)
class Gpus:
    """Whose driver comes from the host into the container, None for none.

    `driver` is the oldest NVIDIA driver for the image, None when it does not say. `data_plane` is
    what carries the gradients.
    """

    vendor: GpuVendor | None = None
    driver: str | None = None
    data_plane: DataPlane = DataPlane.NONE


@dataclass(frozen=True)
class Cpus:
    """How ranks use CPUs.

    `bind` is srun's --cpu-bind, None to leave it to Slurm; `level` the x86-64 level that Horovod
    needs, or "".
    """

    bind: str | None = None
    level: str = ""


@dataclass(frozen=True)
class Modules:
    """The modules to load in order, the folders for `module use`, whether all others go first."""

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    purge: bool = False


@dataclass(frozen=True)
class Network:
    """The interfaces of which Gloo uses one, by name; none to use what routes to rank 0's node."""

    interfaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Staging:
    """What reaches the nodes' own disks first, and how the image is read.

    The squashfs of the image begins at `image_offset`. Copies go to the folder `root` of each node,
    "" for the job's own scratch.
    """

    data: DataAccess = DataAccess.IN_PLACE
    image: ImageAccess = ImageAccess.IN_PLACE
    image_offset: int = 0
    root: str = ""

    @property
    def copies_data(self) -> bool:
        return self.data is DataAccess.COPIED

    @property
    def any(self) -> bool:
        """Whether the job does anything on its nodes before the ranks start."""
        return self.copies_data or self.image is not ImageAccess.IN_PLACE


@dataclass(frozen=True)
class Interruption:
    """What happens before the time limit, and after a job was preempted.

    With `requeue` it is requeued, `requeue_limit` times at most; None leaves that to the site. The
    ranks are signalled `signal` seconds before the limit, None is not at all.
    `slurm_restarts_preempted` is whether Slurm restarts preempted jobs itself, beside them. A step
    that has not ended `step_end_seconds` after a rank has failed is ended; 0 leaves it alone.
    """

    requeue: bool | None = None
    signal: int | None = None
    requeue_limit: int = 0
    slurm_restarts_preempted: bool = False
    step_end_seconds: int = 0


@dataclass(frozen=True)
class Plan:
    """All decisions on a job; `script` turns it into text and decides nothing.

    `spec` is what was asked for, `resources` what the scheduler is asked for. With `refusals` the
    job cannot work, and is submitted by force only. `runtime_args` are the site's options for the
    runtime. `host_mpi` is set where the host's MPI libraries go into the image, `brings_recipe`
    where the trainer comes from this machine. With `ssh` programs in the container reach the job's
    other nodes. A plan for a `remote_site` is shown only. `verified_digest` and `verified_stamp`
    (size and times) are the image's at the launch, "" where no build or pull recorded it. `instead`
    are the changes of settings by which a refused job works: the solver has tried each.
    """

    spec: JobSpec
    resources: Resources
    launching: Launching
    wireup: Wireup
    gpus: Gpus = Gpus()
    cpus: Cpus = Cpus()
    network: Network = Network()
    staging: Staging = Staging()
    interruption: Interruption = Interruption()
    brings_recipe: bool = False
    binds: tuple[BindMount, ...] = ()
    variables: tuple[Variable, ...] = ()
    runtime_args: tuple[str, ...] = ()
    modules: Modules = Modules()
    host_mpi: HostMpi | None = None
    ssh: bool = False
    remote_site: bool = False
    verified_digest: str = ""
    verified_stamp: str = ""
    choices: tuple[Choice, ...] = ()
    warnings: tuple[Diagnosis, ...] = ()
    refusals: tuple[Diagnosis, ...] = ()
    instead: tuple[Remedy, ...] = ()
