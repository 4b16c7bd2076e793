"""A site as values: its profile, which its administrators decide, and what was found on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

from ..contract.enums import WordEnum
from .model import MpiFlavour, RuntimeName, SchedulerName
from .toml_check import Rule

# sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, and
# days-hours[:minutes[:seconds]]
TIME = re.compile(r"\d+|\d+:\d+|\d+:\d+:\d+|\d+-\d+(:\d+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Return a path in which variables such as $USER have their values, where they have one."""
    if "$" not in text:
        return text
    from string import Template  # here, because most launches need none

    return Template(text).safe_substitute(env)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


Count = Annotated[int, Rule("a whole number, 0 or more", lambda count: count >= 0)]
Pattern = Annotated[str, Rule("a regular expression", _compiles)]
Limit = Annotated[str, Rule("one of Slurm's time limits, such as 1-12:00:00", TIME.fullmatch)]


class GpuRequest(WordEnum):
    """The setting by which a site is asked for GPUs."""

    GRES = "gres"
    GPUS_PER_NODE = "gpus-per-node"


@dataclass(frozen=True)
class ValueSource:
    """Where a value of a profile comes from, and when that was read (ISO date)."""

    text: str = ""
    date: str = ""


@dataclass(frozen=True)
class Detect:
    """What tells that this is the site: cluster names, host name patterns, variables' values."""

    clusters: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Requirement:
    """A setting that every job must have, or with `gpus_only` every one on GPU nodes, and why.

    `pattern` is a regular expression for the whole value, "" for any. `remedy` is what to type; in
    it {framework} is the trainer's and {value} what was given.
    """

    reason: str = ""
    remedy: str = ""
    pattern: Pattern = ""
    gpus_only: bool = False


@dataclass(frozen=True)
class Rules:
    """What the site enforces; the texts are reasons for the user.

    `require` and `forbid` go by setting. `submit_below` are folders, of which the current one must
    be below one, with $USER and the like in them. With `gpu_type` the type of GPUs must be named.
    `max_time` has limits in Slurm's form by partition or QOS, "*" for all others, `min_nodes` and
    `max_nodes` numbers of nodes. `whole_nodes` names partitions, or "*", whose jobs over several
    nodes must take all GPUs of each; `no_fast_network` GPU types whose nodes have nothing faster
    than Ethernet.
    """

    require: dict[str, Requirement] = field(default_factory=dict)
    forbid: dict[str, str] = field(default_factory=dict)
    submit_below: tuple[str, ...] = ()
    gpu_request: Optional[GpuRequest] = None  # noqa: UP045 - read as it runs, by Python 3.9 too
    gpu_type: bool = False
    max_time: dict[str, Limit] = field(default_factory=dict)
    min_nodes: dict[str, Count] = field(default_factory=dict)
    max_nodes: dict[str, Count] = field(default_factory=dict)
    whole_nodes: tuple[str, ...] = ()
    no_fast_network: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one kind: CPUs (as Slurm counts them) and GPUs of each, the GPUs' type.

    `name` is a partition or a constraint; where the site has neither, any name.
    """

    name: str
    cpus: Count = 0
    gpus: Count = 0
    gpu_type: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class HostMpi:
    """How the host's MPI gets into a container: paths to bind, what goes before its libraries.

    `library_path` becomes LD_LIBRARY_PATH within; `modules` are loaded before.
    """

    binds: tuple[str, ...] = ()
    library_path: str = ""
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prebuilt:
    """Where prebuilt images and their list are, oras://HOST/FOLDER or a folder."""

    source: str = ""


@dataclass(frozen=True)
class Profile:
    """One site, inheritance done. `launch` are settings as in runner.toml; `env` host variables,
    `env_several_nodes` more of them for jobs over several nodes.

    `login` is the host for tunnels. A job's step is ended by its script when a rank has failed and
    nothing has happened for `step_end_seconds`, 0 for never.
    `runtime_args` goes by runtime. `module_use` are folders for `module use`, before any module is
    loaded. `gpu_order` is CUDA_VISIBLE_DEVICES for a rank in a job that has all GPUs of its nodes,
    so that GPUs follow the ranks' CPUs. `rendered` names the parts (scheduler, runtime, launcher)
    that were compared with whole expected scripts, and never run by this project. `sources` and
    `files` map each value's dotted key to its source and to the file that has it; `chosen` says
    why this profile is in force, such as "the cluster calls itself neuron".
    """

    name: str
    title: str = ""
    scheduler: Optional[SchedulerName] = None  # noqa: UP045 - as above
    runtimes: tuple[RuntimeName, ...] = ()
    launch: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    env_several_nodes: dict[str, str] = field(default_factory=dict)
    detect: Detect = Detect()
    rules: Rules = Rules()
    nodes: tuple[NodeKind, ...] = ()
    images: Prebuilt = Prebuilt()
    host_mpi: Optional[HostMpi] = None  # noqa: UP045 - as above
    login: str = ""
    step_end_seconds: Count = 300
    paths: dict[str, str] = field(default_factory=dict)
    runtime_args: dict[str, tuple[str, ...]] = field(default_factory=dict)
    module_use: tuple[str, ...] = ()
    gpu_order: str = ""
    rendered: tuple[str, ...] = ()
    sources: dict[str, ValueSource] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    chosen: str = ""

    def folder(self, name: str, env: Mapping[str, str]) -> Path | None:
        """Return a folder of `paths` with the user's variables filled in; None without one."""
        return next(iter(self.folders(name, env)), None)

    def folders(self, name: str, env: Mapping[str, str]) -> tuple[Path, ...]:
        """Return the folders of an entry of `paths` that has several, with a colon between two."""
        texts = (expanded(text, env) for text in self.paths.get(name, "").split(":"))
        return tuple(Path(text) for text in texts if text)


class NodeGroup(NamedTuple):
    """Nodes of a partition that are alike: how many, the GPUs and CPUs of each, the features.

    GPUs are types, "" where the site gives none, with their numbers.
    """

    nodes: int
    gpus: tuple[tuple[str, int], ...] = ()
    features: tuple[str, ...] = ()
    cpus: int = 0

    def count(self, kind: str = "") -> int:
        """Return how many GPUs of a type, "" for any, a node has; Slurm ignores a type's case."""
        return sum(n for name, n in self.gpus if not kind or name.lower() == kind.lower())


@dataclass(frozen=True)
class Partition:
    """A part of the cluster, as sinfo tells; the counts are those of its smallest node.

    `gpus` has the type ("" where the site gives none) and the number of each kind; `time_limit` is
    Slurm's text, such as 1-00:00:00; `default` is the one that a job without --partition gets;
    `disk_mb` is a node's own disk for temporary files, 0 where the site does not say. `groups` are
    its nodes, those that are alike together.
    """

    name: str
    nodes: int = 0
    cpus: int = 0
    gpus: tuple[tuple[str, int], ...] = ()
    time_limit: str = ""
    default: bool = False
    disk_mb: int = 0
    groups: tuple[NodeGroup, ...] = ()


class Mpirun(NamedTuple):
    """The mpirun on the PATH; as text such as openmpi 5.0.7."""

    flavour: MpiFlavour
    version: str

    def __str__(self) -> str:
        return f"{self.flavour} {self.version}"


@dataclass(frozen=True)
class Site:
    """What this machine offers, asked once; what could not be found out is empty.

    `schedulers` are those whose commands are here; `mpi_types` are srun's and `mpi_default` the one
    it takes by itself; `runtimes` are those that are here, the preferred one first. `driver` is the
    version of the NVIDIA driver, `gpus` the number of its GPUs and `cpus` that of the CPUs which a
    process may use here, `glibc` that of the C library, `architecture` is in Go's words,
    such as amd64. `allocation` is the number of the Slurm job in which this process runs, and
    `allocated_nodes` its nodes, with `allocated_cpus` and `allocated_gpus` on each at least and
    `allocated_tasks` asked for on each. `cwd` is the current folder; `environment` has the user's
    variables that matter to a job, such as NCCL_* and SCRATCH. `problems` are commands that hung or
    were not understood, in words for the user. `profile` is the site's own, None where none is
    known; with `remote_site` it is of another machine's site, of which nothing else is known.
    `host_libraries` are those of its mpirun, looked for when the job wants them in the image, and
    `unpacks` why the runtime cannot mount an image but unpacks it at each start, when that matters;
    `fuse` it mounts by squashfuse.
    `apptainer` is the version of the one that runs the image, asked for when the job wants GPUs.
    """

    schedulers: tuple[SchedulerName, ...] = ()
    mpi_types: tuple[str, ...] = ()
    runtime: RuntimeName | None = None
    driver: str = ""
    gpus: int = 0
    cpus: int = 0
    glibc: str = ""
    architecture: str = ""
    runtimes: tuple[RuntimeName, ...] = ()
    slurm_version: str = ""
    mpi_default: str = ""
    task_plugin: str = ""
    proctrack: str = ""
    cluster_name: str = ""
    partitions: tuple[Partition, ...] = ()
    mpirun: Mpirun | None = None
    amd: bool = False
    allocation: str = ""
    allocated_nodes: int = 0
    allocated_cpus: int = 0
    allocated_tasks: int = 0
    allocated_gpus: int = 0
    cwd: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    profile: Profile | None = None
    remote_site: bool = False
    host_libraries: HostMpi | None = None
    unpacks: str = ""
    apptainer: str = ""
    fuse: bool = False
