"""What a machine tells of its site, as facts for a profile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...core.model import Partition, Site
from .write_profile import Fact

ENDLESS = ("infinite", "UNLIMITED", "")


@dataclass(frozen=True)
class Machine:
    """What was asked: the site's facts, Slurm's settings, names of this machine, its fabrics.

    `kinds` has a partition once for each kind of its nodes, where `site` has the poorest of them.
    """

    site: Site
    settings: Mapping[str, str]
    host: str
    scratch: str
    kinds: tuple[Partition, ...] = ()
    fabrics: tuple[str, ...] = ()


def facts(machine: Machine) -> list[Fact]:
    """Return what can be said of the site, each with its source."""
    parts = (_about, _network, _rules, _nodes, _paths)
    return [fact for part in parts for fact in part(machine)]


def base(machine: Machine) -> str:
    """Return the profile to build upon, "" for none."""
    return "slurm" if "slurm" in machine.site.schedulers else ""


def _about(machine: Machine) -> Iterator[Fact]:
    site, host = machine.site, machine.host
    if "slurm" not in site.schedulers:
        name = next(iter(site.schedulers), "local")
        yield Fact(("scheduler",), name, f"the commands on {host}")
    if site.runtimes:
        yield Fact(("runtimes",), site.runtimes, f"the commands on {host}")
    if site.cluster_name:
        source = f"scontrol show config on {host}"
        yield Fact(("detect", "clusters"), [site.cluster_name], source)
    else:
        yield Fact(("detect", "hosts"), [host.lower()], f"the name of {host}")


def _network(machine: Machine) -> Iterator[Fact]:
    """Slingshot's interfaces are hsn0, hsn1, ...; by itself NCCL may take the slow network's."""
    if "slingshot" in machine.fabrics:
        yield Fact(("env", "NCCL_SOCKET_IFNAME"), "hsn", f"the interfaces of {machine.host}")


def _rules(machine: Machine) -> Iterator[Fact]:
    site, host = machine.site, machine.host
    if any(partition.gpus for partition in site.partitions):
        # Slurm's select/cons_tres, since 19.05, knows --gpus-per-node and the like.
        form = "gpus-per-node" if "tres" in machine.settings.get("SelectType", "") else "gres"
        yield Fact(("rules", "gpu_request"), form, f"SelectType in scontrol show config on {host}")
    if site.partitions and not any(partition.default for partition in site.partitions):
        required, source = ("rules", "require", "partition"), f"sinfo on {host}"
        yield Fact((*required, "reason"), "no partition is the default", source)
        yield Fact((*required, "remedy"), f"--partition {site.partitions[0].name}", source)
    for partition in site.partitions:
        if partition.time_limit not in ENDLESS:
            path = ("rules", "max_time", partition.name)
            yield Fact(path, partition.time_limit, f"sinfo on {host}")


def _nodes(machine: Machine) -> Iterator[Fact]:
    written: set[str] = set()
    for kind in machine.kinds:
        for gpu_type, gpus in kind.gpus or (("", 0),):
            name = _name(kind, gpu_type, gpus, machine.kinds)
            values = {"cpus": kind.cpus, "gpus": gpus, "gpu_type": gpu_type}
            for key, value in values.items() if name not in written else ():
                if value:
                    yield Fact(("nodes", name, key), value, f"sinfo on {machine.host}")
            written.add(name)


def _name(kind: Partition, gpu_type: str, gpus: int, kinds: tuple[Partition, ...]) -> str:
    """A partition of one kind of nodes names them; else what they have goes with it."""
    if len(kind.gpus) < 2 and [other.name for other in kinds].count(kind.name) == 1:
        return kind.name
    return f"{kind.name}-{gpu_type or 'gpu'}-{gpus}" if gpus else f"{kind.name}-cpus-{kind.cpus}"


def _paths(machine: Machine) -> Iterator[Fact]:
    if machine.scratch:
        yield Fact(("paths", "scratch"), machine.scratch, f"looking for it on {machine.host}")
