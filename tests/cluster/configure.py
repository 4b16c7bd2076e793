"""Writes what the nodes find in /etc: Slurm's files, the munge key, the hosts file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import accounting, cgroups, network, slurm
from .design import MEMORY, Design
from .releases import RELEASES
from .state import State

MODULES_PROFILE = ". /usr/share/modules/init/bash\n"
OF_SLURM = "slurm/slurmdbd.conf"  # slurmdbd refuses one that others may read


def files(design: Design, first_job: int) -> dict[str, str]:
    """Path below /etc -> text."""
    flavour = design.flavour
    found = {
        "slurm/slurm.conf": slurm.slurm_conf(design, first_job),
        "slurm/gres.conf": slurm.gres_conf(flavour),
        "slurm/cgroup.conf": _cgroup_conf(design),
        **{f"hosts/{name}": network.hosts_file(design, name) for name in design.hosts},
        **{f"modules/{name}": "#%Module\n" for name in flavour.modules},
        "profile/site.sh": (MODULES_PROFILE if flavour.modules else "") + flavour.profile,
    }
    if flavour.job_submit:
        found["slurm/job_submit.lua"] = flavour.job_submit
    if flavour.accounts:
        found[OF_SLURM] = accounting.SLURMDBD_CONF
    return found


def _cgroup_conf(design: Design) -> str:
    if not design.controllers:
        return RELEASES[design.release].cgroup_conf
    return cgroups.CONF + (cgroups.MEMORY_CONF if design.has(MEMORY) else "")


def write(state: State, tree: Path, design: Design, first_job: int) -> None:
    """Replace the configuration of the (stopped) cluster."""
    shutil.rmtree(state.etc, ignore_errors=True)
    for name, text in files(design, first_job).items():
        path = state.etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (state.etc / "modules").mkdir(exist_ok=True)
    if (private := state.etc / OF_SLURM).exists():
        private.chmod(0o600)
        os.chown(private, *_owner(tree, "slurm"))
    _write_munge_key(state.etc / "munge", tree)


def _write_munge_key(folder: Path, tree: Path) -> None:
    """A new key for each start; munged refuses one that others may read or own."""
    folder.mkdir(mode=0o700)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    for path in (folder, key):
        os.chown(path, *_owner(tree, "munge"))


def _owner(tree: Path, user: str) -> tuple[int, int]:
    passwd = (tree / "etc/passwd").read_text().splitlines()
    uid, gid = next(line.split(":")[2:4] for line in passwd if line.startswith(f"{user}:"))
    return int(uid), int(gid)
