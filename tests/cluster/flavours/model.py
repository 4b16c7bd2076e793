"""What makes one site's Slurm differ from another's. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Nodes:
    """Nodes of one kind: what each claims to have; real hardware may be smaller."""

    names: tuple[str, ...]
    cpus: int
    memory_mb: int
    gpu_type: str = ""
    gpus: int = 0
    features: tuple[str, ...] = ("x86_64",)
    threads_per_core: int = 1


@dataclass(frozen=True)
class Partition:
    """A partition; *nodes* are those of the kinds at these places of Flavour.kinds, all if empty.

    *options* is the rest of its line in slurm.conf(5).
    """

    name: str
    options: str
    kinds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Flavour:
    """A site's Slurm. *accounts*: sacctmgr commands; none means no slurmdbd, and no sacct.

    *job_submit*: Lua text that refuses what the site refuses. *profile*: what a login shell
    sources. *scratch*: a second place of /scratch. *modules*: names that `module load` knows; none
    means no `module` command.
    """

    cluster: str
    kinds: tuple[Nodes, ...]
    partitions: tuple[Partition, ...]
    accounts: tuple[str, ...] = ()
    job_submit: str = ""
    profile: str = ""
    scratch: str = ""
    modules: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all compute nodes."""
        return tuple(name for kind in self.kinds for name in kind.names)

    def kind_of(self, node: str) -> Nodes | None:
        """What *node* has; None for the controller."""
        return next((kind for kind in self.kinds if node in kind.names), None)


def numbered(prefix: str, first: int, count: int) -> tuple[str, ...]:
    """*count* names: *prefix* with numbers of two digits from *first*."""
    return tuple(f"{prefix}{number:02}" for number in range(first, first + count))
