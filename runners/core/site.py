"""What a machine offers to jobs, as far as it can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from .site_profile import HostMpi, Profile


@dataclass(frozen=True)
class Partition:
    """A part of the cluster, as sinfo tells; the counts are those of its smallest node.

    `gpus` has the type ("" where the site gives none) and the number of each kind; `time_limit` is
    Slurm's text, such as 1-00:00:00; `default` is the one that a job without --partition gets;
    `disk_mb` is a node's own disk for temporary files, 0 where the site does not say.
    """

    name: str
    nodes: int = 0
    cpus: int = 0
    gpus: tuple[tuple[str, int], ...] = ()
    time_limit: str = ""
    default: bool = False
    disk_mb: int = 0


@dataclass(frozen=True)
class Site:
    """What this machine offers, asked once; what could not be found out is empty.

    `schedulers` are those whose commands are here; `mpi_types` are srun's and `mpi_default` the one
    it takes by itself; `runtimes` are those that are here, the preferred one first. `driver` is the
    version of the NVIDIA driver, `glibc` that of the C library, `architecture` is in Go's words,
    such as amd64. `host_mpi` is flavour and version of the mpirun on the PATH, such as "openmpi
    5.0.7". `allocation` is the number of the Slurm job in which this process runs, and
    `allocated_nodes` its nodes, with `allocated_cpus` on each at least and `allocated_tasks` asked
    for on each. `cwd` is the current folder; `environment` has the user's variables that matter to
    a job, such as NCCL_* and SCRATCH. `problems` are commands that hung or were not understood, in
    words for the user. `profile` is the site's own, None where none is known; `elsewhere` it is of
    another machine's site, of which nothing else is known. `host_libraries` are those of its
    mpirun, looked for when the job wants them in the image, and `unpacks` why the runtime cannot
    mount an image but unpacks it at each start, when that matters; `fuse` it mounts by squashfuse.
    `apptainer` is the version of the one that runs the image, asked for when the job wants GPUs.
    """

    schedulers: tuple[str, ...] = ()
    mpi_types: tuple[str, ...] = ()
    runtime: str | None = None
    driver: str = ""
    glibc: str = ""
    architecture: str = ""
    runtimes: tuple[str, ...] = ()
    slurm_version: str = ""
    mpi_default: str = ""
    task_plugin: str = ""
    proctrack: str = ""
    cluster_name: str = ""
    partitions: tuple[Partition, ...] = ()
    host_mpi: str = ""
    amd: bool = False
    allocation: str = ""
    allocated_nodes: int = 0
    allocated_cpus: int = 0
    allocated_tasks: int = 0
    cwd: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    profile: Profile | None = None
    elsewhere: bool = False
    host_libraries: HostMpi | None = None
    unpacks: str = ""
    apptainer: str = ""
    fuse: bool = False
