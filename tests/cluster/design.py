"""What `up` is asked for: everything that the cluster is made from follows from it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import flavours, releases
from .flavours.model import Flavour
from .shell import ClusterError

CONTROLLER = "login"
MAX_NODES = 64
DEAD_INTERFACE, LOOPBACK_NAME = "dead-interface", "loopback-name"
IPV6_NAMES, IPV6_ONLY = "ipv6-names", "ipv6-only"
CGROUPS, MEMORY, PREEMPTION = "cgroups", "memory-limits", "preemption"
NO_USER_NAMESPACES, NO_HOST_NAMES = "no-user-namespaces", "no-host-names"
QUIRKS = {
    DEAD_INTERFACE: "each node has an interface eno1, up and with an address, that leads nowhere",
    LOOPBACK_NAME: "/etc/hosts gives each node's own name the address 127.0.1.1",
    IPV6_NAMES: "nodes have both kinds of address, their names have IPv6 ones only",
    IPV6_ONLY: "nodes and their names have IPv6 addresses only",
    CGROUPS: "Slurm tracks processes by cgroups, as most sites do, and signals a task's first only",
    MEMORY: "the same, and what takes more memory than it asked for is killed by the kernel",
    PREEMPTION: "partitions low and high: jobs of high make those of low wait, after 15 s of grace",
    NO_USER_NAMESPACES: "compute nodes let jobs have no user namespaces",
    NO_HOST_NAMES: "compute nodes let jobs have no host names of their own (UTS namespaces)",
}
TAKEN = (CONTROLLER, "switch", "localhost")


@dataclass(frozen=True)
class Design:
    """*release*: a key of RELEASES; *nodes*: names of the compute nodes; *quirks*: of QUIRKS.

    *like*: a key of FLAVOURS, whose nodes these are; empty for the default cluster. *binds*: files
    and folders of the host that all nodes see, each as SRC[:DST[:rw]].
    """

    release: str = releases.DEFAULT
    nodes: tuple[str, ...] = ("n1", "n2")
    quirks: tuple[str, ...] = ()
    like: str = ""
    binds: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The controller, then the compute nodes."""
        return (CONTROLLER, *self.nodes)

    @property
    def flavour(self) -> Flavour:
        """What its Slurm is like."""
        return flavours.FLAVOURS[self.like] if self.like else flavours.kit.flavour(self.nodes)

    def has(self, quirk: str) -> bool:
        """Whether the cluster was asked for with *quirk*."""
        return quirk in self.quirks

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers of control groups that its Slurm uses."""
        if self.has(MEMORY):
            return ("freezer", "memory")
        return ("freezer",) if self.has(CGROUPS) else ()

    @classmethod
    def from_json(cls, data: dict[str, object]) -> Design:
        """The design that was written as *data*; lists become tuples again."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})  # type: ignore[arg-type]


DEFAULT = Design()


def numbered(count: int) -> tuple[str, ...]:
    """The names n1, n2, ... of *count* compute nodes."""
    if not 1 <= count <= MAX_NODES:
        raise ClusterError(f"--nodes {count}: from 1 to {MAX_NODES}")
    return tuple(f"n{number}" for number in range(1, count + 1))


def named(text: str) -> tuple[str, ...]:
    """The names in the comma list *text*; raises ClusterError for one that cannot be a node's."""
    names = tuple(text.split(","))
    bad = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9-]{0,10}", name)]
    bad += [name for name in names if name in TAKEN or names.count(name) > 1]
    if bad or len(names) > MAX_NODES:
        raise ClusterError(
            f"--names {text}: up to {MAX_NODES} different names of small letters, digits and '-'"
            f", none of {', '.join(TAKEN)}"
        )
    return names
