"""The values that flow through a launch. Frozen; made once; changed with dataclasses.replace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Resources:
    """What is asked of the scheduler, spelled as Slurm's long options; None is "not asked"."""

    nodes: int = 1
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: str | None = None
    gpus_per_node: str | None = None
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
    reservation: str | None = None
    dependency: str | None = None
    comment: str | None = None

    @property
    def tasks(self) -> int:
        """The number of ranks in all."""
        if self.ntasks is not None:
            return self.ntasks
        return self.nodes * (self.ntasks_per_node or 1)

    @property
    def wants_gpus(self) -> bool:
        """Whether any of Slurm's ways to ask for GPUs is used."""
        return bool(self.gpus or self.gpus_per_node or "gpu" in (self.gres or ""))


@dataclass(frozen=True)
class BindMount:
    """A host path that appears in the container at `target`, read-only or not."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Trainer:
    """What Python runs: a recipe's module, or a file of the user's, and its arguments.

    `name` is for people and the default job name.
    """

    name: str
    module: str | None
    file: Path | None
    args: tuple[str, ...] = ()
    requires: str | None = None


@dataclass(frozen=True)
class JobSpec:
    """What the user asks for, after all sources of settings were merged."""

    name: str
    image: Path
    trainer: Trainer
    resources: Resources
    runs_dir: Path
    scheduler: str = "auto"
    controller: str = "auto"
    mpi: str | None = None
    interface: str | None = None
    nv: bool | None = None
    data: Path | None = None
    output: str | None = None
    binds: tuple[BindMount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    modules: tuple[str, ...] = ()
    sbatch_args: tuple[str, ...] = ()
    srun_args: tuple[str, ...] = ()
    apptainer_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """What this machine offers, asked once: `mpi_types` are srun's, empty without Slurm.

    `driver` is the version of its NVIDIA driver, `glibc` that of its C library, `architecture` is
    in Go's words, such as amd64; empty if unknown.
    """

    has_slurm: bool
    mpi_types: tuple[str, ...] = ()
    runtime: str | None = None
    driver: str = ""
    glibc: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class ImageInfo:
    """What an image says of itself; without labels of ours, `labels` has no key of ours.

    A pulled image has the `source` that it came from and the `digest` of its file. The
    `architecture` is in Go's words, such as amd64; empty if unknown.
    """

    path: Path
    labels: dict[str, str] = field(default_factory=dict)
    source: str = ""
    digest: str = ""
    architecture: str = ""

    def listed(self, label: str) -> tuple[str, ...]:
        """Return a comma-separated label as a tuple, empty when absent."""
        return tuple(part for part in self.labels.get(label, "").split(",") if part)


@dataclass(frozen=True)
class Decision:
    """One choice of the plan, and what it rests on."""

    what: str
    value: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Every choice made; `script` turns it into text and nothing else.

    `driver` is the oldest NVIDIA driver for the image, None when it does not say.
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
    decisions: tuple[Decision, ...]
    image_digest: str = ""
    verified_digest: str = ""
    driver: str | None = None
