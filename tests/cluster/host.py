"""What the host must have, and who may run this."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from pathlib import Path

from .shell import Unsupported, run

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}
# sysctl switches of user namespaces for ordinary users -> (closed, open)
SWITCHES = {
    "user.max_user_namespaces": ("0", "65536"),
    "kernel.unprivileged_userns_clone": ("0", "1"),  # Debian's and Arch's kernels
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),  # Ubuntu 23.10 and later
}
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


def require_root() -> None:
    """Raise Unsupported unless this is root."""
    if os.geteuid() != 0:
        raise Unsupported("not root: namespaces, mounts and veth pairs need it; run it with sudo")


def check() -> None:
    """Raise Unsupported, with the reasons, unless this machine can carry the cluster."""
    require_root()
    problems = _kernel_problems()
    if problems:
        raise Unsupported("this machine cannot carry the cluster:\n  " + "\n  ".join(problems))


def require() -> None:
    """Check, and install missing packages. Raises Unsupported."""
    check()
    packages = missing_packages()
    if packages:
        install(packages)


def _kernel_problems() -> list[str]:
    status = Path("/proc/self/status").read_text()
    problems = [f"root lacks {name}" for name in missing_capabilities(status)]
    problems += _closed_switches(Path("/proc/sys"))
    if not Path("/proc/self/ns/user").exists():
        problems.append("no user namespaces in this kernel (CONFIG_USER_NS): rootless Apptainer")
    if not _is_device(Path("/dev/fuse")):
        problems.append("no /dev/fuse (Apptainer mounts images with squashfuse): modprobe fuse")
    if not Path("/proc/self/ns/net").exists():
        problems.append("no network namespaces (CONFIG_NET_NS)")
    if "overlay" not in Path("/proc/filesystems").read_text():
        problems.append("no overlay file system: modprobe overlay")
    return problems


def missing_capabilities(status: str) -> list[str]:
    """Names of needed capabilities that the text of a /proc/PID/status lacks."""
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return [name for name, bit in CAPABILITIES.items() if not int(mask, 16) >> bit & 1]


def _closed_switches(folder: Path) -> list[str]:
    problems = []
    for name, (closed, opened) in SWITCHES.items():
        path = folder / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == closed:
            problems.append(f"no user namespaces for users: sysctl -w {name}={opened}")
    return problems


def _is_device(path: Path) -> bool:
    return path.exists() and stat.S_ISCHR(path.stat().st_mode)


def missing_packages() -> list[str]:
    """The Debian packages whose commands are absent on this host."""
    absent = {package for command, package in COMMANDS.items() if not shutil.which(command)}
    if not KEYRING.exists():
        absent.add("debian-archive-keyring")
    if importlib.util.find_spec("pip") is None and Path(sys.executable).parent == Path("/usr/bin"):
        absent.add("python3-pip")  # Debian's own Python comes without; another one says so
    return sorted(absent)


def command(name: str, package: str) -> str:
    """The program of that name on this host; its Debian package is installed if absent."""
    if not shutil.which(name):
        install([package])
    found = shutil.which(name)
    if not found:
        raise Unsupported(f"the package {package} was installed, and there is no {name}")
    return found


def install(packages: list[str]) -> None:
    """Install Debian packages on this host."""
    if not shutil.which("apt-get"):
        raise Unsupported(f"missing on this host: {' '.join(packages)} (names of Debian packages)")
    print(f"installing with apt-get on this host: {' '.join(packages)}", file=sys.stderr)
    # NOTE: the lock wait lets two jobs on one machine start at the same time (apt >= 1.9.11).
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    run([*apt, "update"])
    run([*apt, "install", "-y", "--no-install-recommends", *packages])
