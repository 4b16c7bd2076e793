"""Writes what the nodes find in /etc: Slurm's files, the munge key, the hosts file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import network, slurm
from .design import Design
from .releases import RELEASES
from .state import State


def files(design: Design, first_job: int) -> dict[str, str]:
    """Path below /etc -> text."""
    return {
        "slurm/slurm.conf": slurm.slurm_conf(design, first_job),
        "slurm/gres.conf": slurm.gres_conf(),
        "slurm/cgroup.conf": RELEASES[design.release].cgroup_conf,
        **{f"hosts/{name}": network.hosts_file(design, name) for name in design.hosts},
    }


def write(state: State, tree: Path, design: Design, first_job: int) -> None:
    """Replace the configuration of the (stopped) cluster."""
    shutil.rmtree(state.etc, ignore_errors=True)
    for name, text in files(design, first_job).items():
        path = state.etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _write_munge_key(state.etc / "munge", tree)


def _write_munge_key(folder: Path, tree: Path) -> None:
    """A new key for each start; munged refuses one that others may read or own."""
    passwd = (tree / "etc/passwd").read_text().splitlines()
    uid, gid = next(line.split(":")[2:4] for line in passwd if line.startswith("munge:"))
    folder.mkdir(mode=0o700)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    for path in (folder, key):
        os.chown(path, int(uid), int(gid))
