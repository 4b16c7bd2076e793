"""A control group for each node, of the freezer of version 1, in which its Slurm tracks processes.

NOTE: Slurm 24.11's cgroup/v2 refuses machines where version 1 is mounted too. The freezer needs no
other controller, and any kernel that has it lets it be mounted once more.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from .shell import run

CONF = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"
MOUNT = "mount -t cgroup -o freezer cgroup"
# In the node's root, where the group that it joined is the top.
IN_THE_NODE = (
    "mount -t tmpfs tmpfs ./sys/fs/cgroup",
    "mkdir ./sys/fs/cgroup/freezer",
    f"{MOUNT} ./sys/fs/cgroup/freezer",
)


def _group(root: Path) -> str:
    return "horovod-kit-" + hashlib.sha256(str(root).encode()).hexdigest()[:12]


def joined_argv(root: Path, mountpoint: Path, name: str) -> list[str]:
    """The beginning of a command that runs in node *name*'s group, which looks like the top."""
    there = shlex.quote(str(mountpoint))
    group = f"{there}/{_group(root)}/{name}"
    join = f"mkdir -p {group}; echo $$ > {group}/cgroup.procs"
    script = f'{MOUNT} {there}; {join}; umount {there}; exec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "sh", "unshare", "--cgroup"]


def remove(root: Path, mountpoint: Path) -> None:
    """Remove the groups of the cluster at *root*, whose processes have ended; none is fine."""
    there = shlex.quote(str(mountpoint))
    group = f"{there}/{_group(root)}"
    script = f"{MOUNT} {there}; [ ! -d {group} ] || find {group} -depth -type d -exec rmdir {{}} +"
    run(["unshare", "--mount", "sh", "-ec", script])
