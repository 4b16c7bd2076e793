"""Generates a site profile from this machine and writes it into the user's folder."""

from __future__ import annotations

import datetime
import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..contract import interfaces
from ..core import atomic, disk_space, places, shell
from ..core.errors import Refused, UsageError
from ..core.model import SchedulerName
from ..core.site import GpuRequest, Partition, Site
from ..core.toml_check import toml
from ..schedulers.slurm import CONFIG, parse_config
from . import find_site, load, probe, slurm_nodes

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
BARE = re.compile(r"[A-Za-z0-9_-]+")
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


@dataclass(frozen=True)
class ProfileFact:
    """A value of a profile: the tables it stands in and its key, and where it comes from."""

    path: tuple[str, ...]
    value: Any
    source: str


def profile(name: str | None, force: bool) -> tuple[Path, tuple[str, ...]]:
    """Write the profile; return its path, and what could not be found out.

    Raises UsageError for a name that cannot be one, Refused when there is a profile already.
    """
    machine = ask()
    name = name or machine.site.cluster_name or machine.host.partition(".")[0]
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a site",
            remedy="runner sites new NAME",
            id="site-name-invalid",
        )
    path = load.user_folder(os.environ) / f"{name}.toml"
    if path.exists() and not force:
        raise Refused(
            f"there is already {path}",
            remedy=f"runner sites new {name} --force",
            id="site-profile-exists",
        )
    today = datetime.date.today().isoformat()
    with disk_space.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, text(f"{name}, as {machine.host} told", machine, today))
    return path, machine.site.problems


def ask() -> Machine:
    """Return what this machine tells; what hangs or cannot be read is in the site's problems."""
    site = probe.probe()
    settings, kinds = _slurm(site) if SchedulerName.SLURM in site.schedulers else ({}, ())
    fabrics = interfaces.fabrics(interfaces.interfaces(), interfaces.ports())
    # Scratch as it is for every user.
    parts = str(places.scratch()).split("/")
    scratch = "/".join("$USER" if part == getpass.getuser() else part for part in parts)
    return Machine(site, settings, socket.gethostname(), scratch, kinds, fabrics)


def _slurm(site: Site) -> tuple[dict[str, str], tuple[Partition, ...]]:
    """Return Slurm's settings, and its partitions once for each kind of their nodes."""
    if not (site.cluster_name or site.partitions):
        return {}, ()  # neither sinfo nor scontrol answered the probe
    config, sinfo = shell.together([CONFIG, slurm_nodes.PARTITIONS], find_site.SECONDS)
    lines = sinfo.out.splitlines() if site.partitions else []  # else the probe could not read them
    kinds = [slurm_nodes.parse_partitions(line) for line in lines]
    return parse_config(config.out), tuple(kind for line_kinds in kinds for kind in line_kinds)


def facts(machine: Machine) -> list[ProfileFact]:
    return [*_about(machine), *_rules(machine), *_nodes(machine)]


def _about(machine: Machine) -> Iterator[ProfileFact]:
    site, host = machine.site, machine.host
    if SchedulerName.SLURM not in site.schedulers:
        name = next(iter(site.schedulers), SchedulerName.LOCAL)
        yield ProfileFact(("scheduler",), name, f"the commands on {host}")
    if site.runtimes:
        yield ProfileFact(("runtimes",), site.runtimes, f"the commands on {host}")
    if site.cluster_name:
        source = f"scontrol show config on {host}"
        yield ProfileFact(("detect", "clusters"), [site.cluster_name], source)
    else:
        yield ProfileFact(("detect", "hosts"), [host.lower()], f"the name of {host}")
    if "slingshot" in machine.fabrics:
        # Its interfaces are hsn0, hsn1, ...; by itself NCCL may take the slow network's.
        yield ProfileFact(("env", "NCCL_SOCKET_IFNAME"), "hsn", f"the interfaces of {host}")
    if machine.scratch:
        yield ProfileFact(("paths", "scratch"), machine.scratch, f"looking for it on {host}")


def _rules(machine: Machine) -> Iterator[ProfileFact]:
    site, host = machine.site, machine.host
    if any(partition.gpus for partition in site.partitions):
        # Slurm's select/cons_tres, since 19.05, knows --gpus-per-node and the like.
        tres = "tres" in machine.settings.get("SelectType", "")
        form = GpuRequest.GPUS_PER_NODE if tres else GpuRequest.GRES
        yield ProfileFact(
            ("rules", "gpu_request"), form, f"SelectType in scontrol show config on {host}"
        )
    if site.partitions and not any(partition.default for partition in site.partitions):
        required, source = ("rules", "require", "partition"), f"sinfo on {host}"
        yield ProfileFact((*required, "reason"), "no partition is the default", source)
        yield ProfileFact((*required, "remedy"), f"--partition {site.partitions[0].name}", source)
    for partition in site.partitions:
        if partition.time_limit not in ENDLESS:
            path = ("rules", "max_time", partition.name)
            yield ProfileFact(path, partition.time_limit, f"sinfo on {host}")


def _nodes(machine: Machine) -> Iterator[ProfileFact]:
    written: set[str] = set()
    for kind in machine.kinds:
        for gpu_type, gpus in kind.gpus or (("", 0),):
            name = _name(kind, gpu_type, gpus, machine.kinds)
            values = {"cpus": kind.cpus, "gpus": gpus, "gpu_type": gpu_type}
            for key, value in values.items() if name not in written else ():
                if value:
                    yield ProfileFact(("nodes", name, key), value, f"sinfo on {machine.host}")
            written.add(name)


def _name(kind: Partition, gpu_type: str, gpus: int, kinds: tuple[Partition, ...]) -> str:
    """A partition of one kind of nodes names them; else what they have goes with it."""
    if len(kind.gpus) < 2 and [listed.name for listed in kinds].count(kind.name) == 1:
        return kind.name
    return f"{kind.name}-{gpu_type or 'gpu'}-{gpus}" if gpus else f"{kind.name}-cpus-{kind.cpus}"


def text(title: str, machine: Machine, date: str) -> str:
    """Return a profile with all facts, their sources dated `date` (ISO). Pure."""
    base = 'base = "slurm"\n' if SchedulerName.SLURM in machine.site.schedulers else ""
    return f"title = {toml(title)}\n{base}{tables(facts(machine), date)}"


def tables(facts: Sequence[ProfileFact], date: str) -> str:
    lines = [_line(fact) for fact in facts if len(fact.path) == 1]
    for table in dict.fromkeys(fact.path[:-1] for fact in facts if len(fact.path) > 1):
        lines += ["", f"[{'.'.join(map(_key, table))}]"]
        lines += [_line(fact) for fact in facts if fact.path[:-1] == table]
    lines += ["", "[sources]"]
    for key, source in _sources(facts):
        lines.append(f"{_key(key)} = {{ text = {toml(source)}, date = {toml(date)} }}")
    return "\n".join([*lines, ""])


def _sources(facts: Sequence[ProfileFact]) -> Iterator[tuple[str, str]]:
    """One source for a whole table where all of it has the same, else one for each value."""
    for top in dict.fromkeys(fact.path[0] for fact in facts):
        within = [fact for fact in facts if fact.path[0] == top]
        if len({fact.source for fact in within}) == 1:
            yield top, within[0].source
        else:
            yield from ((".".join(fact.path), fact.source) for fact in within)


def _line(fact: ProfileFact) -> str:
    return f"{_key(fact.path[-1])} = {toml(fact.value)}"


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else toml(name)
