"""Which processes and mounts belong to a cluster, read from /proc: no pid file to go stale."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .shell import ClusterError, run

KILL_SECONDS = 15


def mounts_below(folder: Path, mountinfo: str | None = None) -> list[Path]:
    """Mount points in *folder*, deepest first (format: proc_pid_mountinfo(5))."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    points = [Path(_unescape(line.split(" ")[4])) for line in text.splitlines()]
    return sorted((p for p in points if folder in p.parents), reverse=True)


def _unescape(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def namespaces_below(folder: Path) -> dict[str, int]:
    """Name -> inode of each network namespace that is mounted on a file in *folder*."""
    return {point.name: point.stat().st_ino for point in mounts_below(folder)}


def members(kind: str, inodes: Iterable[int]) -> list[int]:
    """Processes in one of the namespaces *inodes* of *kind* (net, mnt, pid)."""
    wanted = set(inodes)
    return [pid for pid in _pids() if _inode(pid, kind) in wanted]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _inode(pid: int, kind: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:  # the process has ended, or is a zombie
        return 0


def commands(net_inode: int) -> set[str]:
    """Names (at most 15 characters) of the programs in one network namespace."""
    return {_read(pid, "comm").strip() for pid in members("net", [net_inode])}


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:  # the process has ended
        return ""


def find_init(net_inode: int) -> int | None:
    """The process that is number 1 of the node whose network namespace is *net_inode*."""
    found = []
    for pid in members("net", [net_inode]):
        numbers = _numbers(pid)
        if len(numbers) > 1 and numbers[-1] == 1:
            found.append((len(numbers), pid))  # a container in a job may have deeper inits
    return min(found)[1] if found else None


def _numbers(pid: int) -> list[int]:
    """The process's number in each PID namespace, outermost first."""
    lines = _read(pid, "status").splitlines()
    return [int(w) for line in lines if line.startswith("NSpid:") for w in line.split()[1:]]


@contextlib.contextmanager
def _pinned(paths: Iterable[Path]) -> Iterator[set[int]]:
    """Inodes of the namespaces that *paths* lead to; meanwhile no new namespace gets one of them.

    Without that a container of another cluster, started while this one ends, can be taken for ours.
    """
    with contextlib.ExitStack() as stack:
        inodes = set()
        for path in paths:
            try:
                handle = os.open(path, os.O_RDONLY)
            except OSError:  # the process has ended
                continue
            stack.callback(os.close, handle)
            inodes.add(os.fstat(handle).st_ino)
        yield inodes


def _mount_namespaces(net_inodes: Iterable[int]) -> list[Path]:
    """Where the mount namespaces of all processes in *net_inodes* are found; not the host's."""
    own = _inode(os.getpid(), "mnt")
    pids = members("net", net_inodes)
    return [Path(f"/proc/{pid}/ns/mnt") for pid in pids if _inode(pid, "mnt") != own]


def remove(folder: Path) -> None:
    """End every process of the namespaces in *folder*, and the namespaces.

    Raises ClusterError, naming what is left, when something survives KILL_SECONDS.
    """
    with _pinned(mounts_below(folder)) as net, _pinned(_mount_namespaces(net)) as mnt:
        _kill(net, mnt)
        for point in mounts_below(folder):
            run(["umount", "--lazy", str(point)])  # it is in use: pinned by ourselves
        for path in folder.glob("*"):
            path.unlink()
        _verify(folder, net, mnt)


def _alive(net: set[int], mnt: set[int]) -> list[int]:
    return sorted({*members("net", net), *members("mnt", mnt)} - {os.getpid()})


def _kill(net: set[int], mnt: set[int]) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while (pids := _alive(net, mnt)) and time.monotonic() < deadline:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended by itself, or with its node's process 1
        time.sleep(0.02)


def _verify(folder: Path, net: set[int], mnt: set[int]) -> None:
    alive = {pid: _read(pid, "cmdline").replace("\0", " ")[:120] for pid in _alive(net, mnt)}
    left = [f"process {pid}: {command}" for pid, command in alive.items()]
    left += [f"mount {point}" for point in mounts_below(folder)]
    if left:
        raise ClusterError("the cluster is not completely down; left over:\n  " + "\n  ".join(left))
