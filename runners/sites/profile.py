"""A site's profile as a value: what its administrators offer and demand, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    """Where a value of a profile comes from, and when that was read (ISO date)."""

    text: str
    date: str


@dataclass(frozen=True)
class Rules:
    """What the site enforces; the texts are reasons for the user.

    `require` and `forbid` map settings to reasons. `submit_below` are folders, of which the
    current one must be below one, with $USER and the like in them. `account` is a pattern that a
    given --account must match, with its reason. `whole_nodes` names partitions, or "*", whose jobs
    over several nodes must take all GPUs of each; `no_fast_network` GPU types whose nodes have
    nothing faster than Ethernet.
    """

    require: dict[str, str] = field(default_factory=dict)
    forbid: dict[str, str] = field(default_factory=dict)
    submit_below: tuple[str, ...] = ()
    account: str = ""
    account_reason: str = ""
    whole_nodes: tuple[str, ...] = ()
    no_fast_network: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeKind:
    """The nodes of one partition or constraint: CPUs and GPUs of each, the GPUs' type."""

    name: str
    cpus: int = 0
    gpus: int = 0
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
class Profile:
    """One site, inheritance done. `launch` are settings as in runner.toml; `env` host variables.

    `sources` maps a dotted key, or the beginning of one, to its source; `chosen` says why this
    profile is in force, such as "the cluster calls itself neuron".
    """

    name: str
    title: str = ""
    scheduler: str = ""
    runtimes: tuple[str, ...] = ()
    launch: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    rules: Rules = Rules()
    nodes: tuple[NodeKind, ...] = ()
    host_mpi: HostMpi | None = None
    login: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    runtime_args: tuple[str, ...] = ()
    runnable: bool = True
    sources: dict[str, Source] = field(default_factory=dict)
    chosen: str = ""
