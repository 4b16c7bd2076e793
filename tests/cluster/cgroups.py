"""Control groups for each node, of version 1, in which its Slurm tracks processes and their memory.

NOTE: Slurm 24.11's cgroup/v2 refuses machines where version 1 is mounted too. The freezer needs no
other controller, and any kernel that has it lets it be mounted once more; memory it has where the
machine itself does not use it by version 2.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from .shell import run

CONF = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"
MEMORY_CONF = "ConstrainRAMSpace=yes\n"


def _mount(controller: str) -> str:
    return f"mount -t cgroup -o {controller} cgroup"


def in_the_node(controllers: Sequence[str]) -> tuple[str, ...]:
    """Lines that mount them in the node's root, where the group that it joined is the top."""
    if not controllers:
        return ("mount -t cgroup2 cgroup2 ./sys/fs/cgroup",)  # crun, below Podman, wants one
    folders = {name: f"./sys/fs/cgroup/{name}" for name in controllers}
    mounts = [f"mkdir {path}; {_mount(name)} {path}" for name, path in folders.items()]
    return ("mount -t tmpfs tmpfs ./sys/fs/cgroup", *mounts)


def _group(root: Path) -> str:
    return "horovod-kit-" + hashlib.sha256(str(root).encode()).hexdigest()[:12]


def joined_argv(root: Path, mountpoint: Path, name: str, controllers: Sequence[str]) -> list[str]:
    """The beginning of a command that runs in node *name*'s groups, which look like the top."""
    there = shlex.quote(str(mountpoint))
    group = f"{there}/{_group(root)}/{name}"
    join = f"mkdir -p {group}; echo $$ > {group}/cgroup.procs"
    joins = [f"{_mount(controller)} {there}; {join}; umount {there}" for controller in controllers]
    script = "; ".join([*joins, 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-ec", script, "sh", "unshare", "--cgroup"]


def remove(root: Path, mountpoint: Path, controller: str) -> None:
    """Remove the groups of the cluster at *root*, whose processes have ended; none is fine."""
    there = shlex.quote(str(mountpoint))
    group = f"{there}/{_group(root)}"
    find = f"find {group} -depth -type d -exec rmdir {{}} +"
    script = f"{_mount(controller)} {there}; [ ! -d {group} ] || {find}"
    run(["unshare", "--mount", "sh", "-ec", script])
