"""One tree, many machines: the script that turns a fresh namespace into a node's own root.

pivot_root rather than chroot: the kernel refuses user namespaces to a process in a chroot, and
rootless Apptainer needs them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .shell import ClusterError
from .state import UIDS, USER

# Private to each node. PMIx servers of two nodes collide in a shared /tmp.
TMPFS = {"/tmp": 1777, "/var/tmp": 1777, "/run": 755, "/var/spool": 755, "/dev/shm": 1777}
DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "fuse": (10, 229),
}
DEVICE_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


@dataclass(frozen=True)
class Bind:
    """A file or folder of the host, shown at *target* in the tree."""

    source: Path
    target: str
    read_only: bool = True

    @classmethod
    def parse(cls, text: str) -> Bind:
        """SRC[:DST[:ro|:rw]], read-only unless `rw`; DST is SRC when absent."""
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        if mode not in ("", "ro", "rw") or not source:
            raise ClusterError(f"--bind {text}: expected SRC[:DST[:ro|:rw]]")
        path = Path(source).resolve()
        if not path.exists():
            raise ClusterError(f"--bind {text}: no such file or folder: {path}")
        return cls(path, target or str(Path(source).absolute()), mode != "rw")


def root_script(
    tree: Path,
    mountpoint: Path,
    binds: Iterable[Bind],
    hostname: str = "",
    more: Iterable[str] = (),
) -> str:
    """Shell text for `sh -c TEXT sh COMMAND...` in fresh mount and PID namespaces.

    It mounts *tree* under a throw-away overlay on the host folder *mountpoint*, adds *binds* and
    what the lines *more* mount, makes that the root and becomes COMMAND. All mounts vanish with the
    namespace.
    """
    lines = ["set -eu", "umask 022"]
    if hostname:
        lines.append(_join("hostname", hostname))
    lines += [*_overlay(tree, mountpoint), *_system(), *_devices()]
    for folder, mode in TMPFS.items():
        lines += [f"mkdir -p .{folder}", _tmpfs(f".{folder}", mode)]
    for bind in binds:
        lines += _bind(bind)
    lines += [*more, "mkdir .old", "pivot_root . .old", "cd /", "umount -l /.old", "rmdir /.old"]
    lines.append('exec "$@"')
    return "\n".join(lines) + "\n"


def _join(*words: str) -> str:
    return shlex.join(words)


def _overlay(tree: Path, mountpoint: Path) -> list[str]:
    # Relative names: the option text of overlay would need ':' and ',' of a path escaped.
    return [
        _join("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(mountpoint)),
        _join("cd", str(mountpoint)),
        "mkdir lower upper work root",
        _join("mount", "--bind", str(tree), "lower"),
        "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay root",
        "cd root",
    ]


def _system() -> list[str]:
    # Apptainer asks there whether it can run an image for Arm; on most hosts there is none.
    binfmt = "sys/fs/binfmt_misc"
    emulation = f"[ ! -e /proc/{binfmt}/status ] || mount -t binfmt_misc none ./proc/{binfmt}"
    return ["mount -t proc proc ./proc", "mount -t sysfs -o ro sysfs ./sys", emulation]


def _tmpfs(folder: str, mode: int) -> str:
    return f"mount -t tmpfs -o nosuid,mode={mode} tmpfs {folder}"


def _devices() -> list[str]:
    # Our own /dev: on many hosts only root may open /dev/fuse, and srun --pty needs its own ptys.
    lines = ["mount -t tmpfs -o mode=755 tmpfs ./dev", "mkdir ./dev/pts ./dev/shm ./dev/mqueue"]
    lines += [f"mknod -m 666 ./dev/{n} c {major} {minor}" for n, (major, minor) in DEVICES.items()]
    lines += [f"ln -s {target} ./dev/{name}" for name, target in DEVICE_LINKS.items()]
    lines.append("mount -t devpts -o newinstance,gid=5,mode=620,ptmxmode=666 devpts ./dev/pts")
    lines.append("mount -t mqueue mqueue ./dev/mqueue")  # Podman's --ipc=host mounts it
    return lines


def _bind(bind: Bind) -> list[str]:
    source, target = shlex.quote(str(bind.source)), shlex.quote(f".{bind.target}")
    options = "bind,ro" if bind.read_only else "bind"
    return [
        f"if [ -d {source} ]; then mkdir -p -- {target}",
        f'else mkdir -p -- "$(dirname -- {target})"; touch -- {target}; fi',
        f"mount -o {options} -- {source} {target}",
    ]


def login_argv(
    command: Sequence[str], user: str = USER, extra: Mapping[str, str] | None = None, term: str = ""
) -> list[str]:
    """*command* inside the tree as *user* with a fresh login's environment plus *extra*.

    The working folder is /scratch/USER (root: /root).
    """
    home, uid = ("/root", 0) if user == "root" else (f"/home/{user}", UIDS[user])
    environment = {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": term or "dumb",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **(extra or {}),
    }
    folder = home if user == "root" else f"/scratch/{user}"
    return [
        # pdeathsig: a command whose caller was killed does not live on.
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups", "--pdeathsig=KILL"),
        *("env", "-i", *(f"{name}={value}" for name, value in environment.items())),
        *("bash", "-lc", 'cd -- "$0" && exec "$@"', folder, *command),
    ]
