"""Asks this machine, and writes a profile of its site into the user's folder."""

from __future__ import annotations

import datetime
import getpass
import os
import re
import socket
from pathlib import Path

from containers import atomic

from ...core import places, shell
from ...core.errors import Refused, SystemFault, UsageError
from ...core.model import Partition, Site
from ...injob.trial import interfaces
from ...schedulers import slurm_facts
from . import find, probe, profile_facts, write_profile
from .load import user_folder

NOTHING = shell.Result(0, "", "")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def profile(name: str | None, force: bool) -> tuple[Path, tuple[str, ...]]:
    """Write the profile; return its path, and what could not be found out.

    Raises UsageError for a name that cannot be one, Refused when there is a profile already.
    """
    machine = ask()
    name = name or machine.site.cluster_name or machine.host.partition(".")[0]
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a site", remedy="runner sites new NAME")
    path = user_folder(os.environ) / f"{name}.toml"
    if path.exists() and not force:
        raise Refused(f"there is already {path}", remedy=f"runner sites new {name} --force")
    today = datetime.date.today().isoformat()
    title = f"{name}, as {machine.host} told"
    _save(
        path,
        write_profile.profile(
            title, profile_facts.base(machine), profile_facts.facts(machine), today
        ),
    )
    return path, machine.site.problems


def ask() -> profile_facts.Machine:
    """Return what this machine tells; what hangs or cannot be read is in the site's problems."""
    found = probe.probe()
    settings, kinds = _slurm(found) if "slurm" in found.schedulers else ({}, ())
    fabrics = interfaces.fabrics(interfaces.interfaces(), interfaces.ports())
    scratch = _anyones(places.scratch())
    return profile_facts.Machine(found, settings, socket.gethostname(), scratch, kinds, fabrics)


def _slurm(found: Site) -> tuple[dict[str, str], tuple[Partition, ...]]:
    """Return Slurm's settings, and its partitions once for each kind of their nodes.

    What did not answer the probe is not asked again.
    """
    commands = [slurm_facts.CONFIG] if found.cluster_name else []
    commands += [slurm_facts.PARTITIONS] if found.partitions else []
    told = dict(zip((command[0] for command in commands), shell.together(commands, find.SECONDS)))
    config, sinfo = told.get("scontrol", NOTHING), told.get("sinfo", NOTHING)
    kinds = [slurm_facts.parse_partitions(line) for line in sinfo.out.splitlines()]
    return slurm_facts.parse_config(config.out), tuple(kind for one in kinds for kind in one)


def _anyones(folder: Path) -> str:
    """Return a folder of the user's as it is for every user, with $USER in it."""
    user = getpass.getuser()
    return "/".join("$USER" if part == user else part for part in str(folder).split("/"))


def _save(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, text)
    except OSError as error:
        raise SystemFault(f"cannot write {path}", str(error)) from None
