"""The values that flow through a launch. Frozen; made once; changed with dataclasses.replace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .command_line import Given
from .remedy import Remedy
from .site_profile import HostMpi


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
        asked = self.gpus or self.gpus_per_node or self.gpus_per_task
        return bool(asked or "gpu" in (self.gres or ""))


@dataclass(frozen=True)
class BindMount:
    """A host path that appears in the container at `target`, read-only or not.

    With `image_src` the source is a squashfs file, of which that folder appears, such as "/".
    """

    source: str
    target: str
    read_only: bool = False
    image_src: str = ""


@dataclass(frozen=True)
class Dataset:
    """A folder, or a squashfs file, of data for the job. `name` is "" for the only one, at /data.

    `found` says what its name was, "" where the path was given. `size` in bytes and `files` are
    known where the plan needs them; `at_least` when counting was given up.
    """

    name: str
    path: Path
    squashfs: bool = False
    found: str = ""
    size: int = 0
    files: int = 0
    at_least: bool = False

    @property
    def entry(self) -> str:
        """Its name among the staged ones."""
        return (self.name or "data") + (".sqsh" if self.squashfs else "")


@dataclass(frozen=True)
class Trainer:
    """What each rank runs, and its arguments: a recipe's module, a file of Python's, or a program.

    `name` is for people and the default job name, `typed` is how it was named on the command line.
    A `program` is the image's; then `file` is one here that its arguments name, if any. `world` is
    what forms a recipe's, where known. `uses_recipes`: a file imports what recipes share.
    """

    name: str
    module: str | None
    file: Path | None
    args: tuple[str, ...] = ()
    requires: str | None = None
    uses_recipes: bool = False
    typed: str = ""
    program: str = ""
    world: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command on each rank; none where a session stands in its place."""
        file = self.program or self.file
        start = ("-m", self.module) if self.module else (str(file),) if file else ()
        return (*start, *self.args)


@dataclass(frozen=True)
class Tuning:
    """How Horovod is tuned, by horovodrun's own options; None is "not asked".

    `timeline` is an absolute path, or the name of a file in the run's folder.
    """

    timeline: str | None = None
    autotune: bool = False
    fusion_threshold_mb: int | None = None
    cycle_time_ms: float | None = None
    start_timeout: int | None = None


@dataclass(frozen=True)
class JobSpec:
    """What the user asks for, after all sources of settings were merged.

    `signal` is the seconds before the time limit in which the ranks are warned; `settings` are
    those of which this was made, with their origins.
    """

    name: str
    image: Path
    trainer: Trainer
    resources: Resources
    runs_dir: Path
    scheduler: str = "auto"
    runtime: str = "auto"
    launcher: str = "auto"
    controller: str = "auto"
    mpi: str | None = None
    host_mpi: bool = False
    cpu_bind: str | None = None
    interface: str | None = None
    tuning: Tuning = Tuning()
    nv: bool | None = None
    rocm: bool | None = None
    data: tuple[Dataset, ...] = ()
    stage_data: str = "none"
    stage_image: str = "none"
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
    module_purge: bool = False
    sbatch_args: tuple[str, ...] = ()
    srun_args: tuple[str, ...] = ()
    apptainer_args: tuple[str, ...] = ()
    settings: tuple[Given, ...] = ()


@dataclass(frozen=True)
class ImageInfo:
    """What is known of an image: its labels, and for one that is not ours what was found inside.

    `found` holds facts under the names of our labels; `fact` reads both. A pulled image has the
    `source` that it came from and the `digest` of its file. The `architecture` is in Go's words,
    such as amd64; empty if unknown. `problem` says why the image could not be looked into.
    Of a file, `size` is in bytes, `offset` is where in it the squashfs begins, 0 when there is none
    to unpack, and `filesystem` is the kind that it lies on, in the kernel's words, such as nfs4.
    """

    path: Path
    labels: dict[str, str] = field(default_factory=dict)
    source: str = ""
    digest: str = ""
    architecture: str = ""
    found: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    size: int = 0
    offset: int = 0
    filesystem: str = ""

    @property
    def ours(self) -> bool:
        """Whether its labels tell what is in it."""
        return "horovod.version" in self.labels

    def fact(self, name: str) -> str:
        """Return a fact such as "mpi.version", "" when unknown and "none" when not in the image."""
        return self.labels.get(name) or self.found.get(name, "")

    def how(self, name: str) -> str:
        """Return what a fact rests on, in words, such as `its label mpi.version is 4.1.4`."""
        if self.labels.get(name):
            return f"its label {name} is {self.labels[name]}"
        if self.found.get(name):
            return f"looking into it, {name} is {self.found[name]}"
        return f"{name} is unknown" + (f": {self.problem}" if self.problem else "")

    def listed(self, name: str) -> tuple[str, ...]:
        """Return a comma-separated fact as a tuple, empty when absent or "none"."""
        return tuple(part for part in self.fact(name).split(",") if part not in ("", "none"))


@dataclass(frozen=True)
class Choice:
    """One choice of the plan. `id` is stable, and the name of a setting where there is one.

    `value` is for programs, `reason` and `evidence` are for people.
    """

    id: str
    value: str | float
    reason: str
    evidence: str = ""

    @property
    def text(self) -> str:
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return str(self.value)


@dataclass(frozen=True)
class Refusal:
    """Why a plan cannot work. `remedies` are ranked."""

    what: str
    evidence: str = ""
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Caution:
    """What the user should know although the job can run, and what would mend it."""

    what: str
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Variable:
    """A variable of the job. What the user has exported wins, unless `forced`.

    `where` is "job" for the batch script, srun and mpirun, "image" for inside the container only.
    """

    name: str
    value: str
    reason: str
    where: str = "job"
    forced: bool = False


@dataclass(frozen=True)
class Plan:
    """Every choice made; `script` turns it into text and nothing else.

    `driver` is the oldest NVIDIA driver for the image, None when it does not say, `cpu_level` the
    x86-64 level that its Horovod is compiled for. With `refusals` it cannot work, and is submitted
    by force only.
    `runtime_args` are the site's options for the runtime, `module_use` its folders of modules.
    `host_mpi` is set where the host's MPI libraries go into the image. With `staged` the data is
    copied to `stage_root` of each node first, to the job's own scratch where that is empty; with
    `image_form` the image is too, as a "file", or as a "folder" unpacked from `image_offset` on;
    or it is a "mount", one for all ranks of a node. `verified_digest` and `verified_stamp`
    (size and times) are the image's at the launch, "" where no build or pull recorded it.
    The ranks are warned `warning` seconds before the time limit, None is not at all; `restarts`
    are those that the job may have, beside which Slurm may restart preempted ones itself. With
    `ssh` what runs in the container reaches the job's other nodes. One for a site that is
    `elsewhere` is shown only.
    """

    spec: JobSpec
    scheduler: str
    runtime: str
    launcher: str
    controller: str
    mpi: str | None
    nv: bool
    brings_recipe: bool
    binds: tuple[BindMount, ...]
    choices: tuple[Choice, ...]
    image_digest: str = ""
    verified_digest: str = ""
    verified_stamp: str = ""
    driver: str | None = None
    cpu_level: str = ""
    rocm: bool = False
    cpu_bind: str | None = None
    variables: tuple[Variable, ...] = ()
    warnings: tuple[Caution, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    runtime_args: tuple[str, ...] = ()
    module_use: tuple[str, ...] = ()
    host_mpi: HostMpi | None = None
    staged: bool = False
    image_form: str = ""
    image_offset: int = 0
    stage_root: str = ""
    warning: int | None = None
    restarts: int = 0
    slurm_restarts_preempted: bool = False
    ssh: bool = False
    elsewhere: bool = False

    @property
    def stages(self) -> bool:
        """Whether anything goes to the nodes' own disks first."""
        return self.staged or bool(self.image_form)
