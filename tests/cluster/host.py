"""What the host must have, and who may run this."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

from .shell import Unsupported, run

# command -> the Debian package that brings it
COMMANDS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def require() -> None:
    """Raise Unsupported unless this machine can carry the cluster; install missing packages."""
    problems = _kernel_problems()
    if problems:
        raise Unsupported("this machine cannot carry the cluster:\n  " + "\n  ".join(problems))
    packages = missing_packages()
    if packages:
        _install(packages)


def _kernel_problems() -> list[str]:
    if os.geteuid() != 0:
        return ["not root: namespaces, mounts and veth pairs need it; run it with sudo"]
    problems = []
    limit = Path("/proc/sys/user/max_user_namespaces")
    if not limit.exists() or limit.read_text().strip() == "0":
        problems.append("no user namespaces (rootless Apptainer): sysctl user.max_user_namespaces")
    if not _is_device(Path("/dev/fuse")):
        problems.append("no /dev/fuse (Apptainer mounts images with squashfuse): modprobe fuse")
    if not Path("/proc/self/ns/net").exists():
        problems.append("no network namespaces (CONFIG_NET_NS)")
    if "overlay" not in Path("/proc/filesystems").read_text():
        problems.append("no overlay file system: modprobe overlay")
    return problems


def _is_device(path: Path) -> bool:
    return path.exists() and stat.S_ISCHR(path.stat().st_mode)


def missing_packages() -> list[str]:
    """The Debian packages whose commands are absent on this host."""
    absent = {package for command, package in COMMANDS.items() if not shutil.which(command)}
    if not KEYRING.exists():
        absent.add("debian-archive-keyring")
    return sorted(absent)


def _install(packages: list[str]) -> None:
    if not shutil.which("apt-get"):
        raise Unsupported(f"missing on this host: {' '.join(packages)} (names of Debian packages)")
    print(f"installing with apt-get on this host: {' '.join(packages)}", file=sys.stderr)
    # NOTE: the lock wait lets two jobs on one machine start at the same time (apt >= 1.9.11).
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    run([*apt, "update"])
    run([*apt, "install", "-y", "--no-install-recommends", *packages])
