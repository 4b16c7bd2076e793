"""Reads what a trainer's processes, its job and the GPUs use: /proc, cgroups and NVML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....contract.run_files import read
from ...processes import tree

if TYPE_CHECKING:
    import ctypes

    GpuSample = dict[str, float | None]

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
CGROUPS, PROC = "/sys/fs/cgroup", "/proc"
CGROUP, SLURM, NODE = "cgroup", "slurm", "node"  # whose limit of memory it is
NO_LIMIT = 1 << 60  # version 1 writes a number near 2**63
NVML = "libnvidia-ml.so.1"
SUCCESS = 0
CLOCK_SM = 1  # nvmlClockType_t
LONGEST_NAME = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE


@dataclass(frozen=True)
class TreeUse:
    """What processes use: CPU seconds so far, and resident bytes now.

    It includes children that have ended and were waited for. A process that shares pages with its
    parent counts them too.
    """

    cpu: float
    resident: int


def of_tree(root: int, proc: str = PROC) -> TreeUse | None:
    """Return what a process and its descendants use; None when it has ended."""
    uses = [use for pid in tree(root, proc) if (use := _of_process(pid, proc))]
    if not uses:
        return None
    return TreeUse(sum(use.cpu for use in uses), sum(use.resident for use in uses))


def _of_process(pid: int, proc: str) -> TreeUse | None:
    stat, pages = read(f"{proc}/{pid}/stat"), read(f"{proc}/{pid}/statm").split()
    if not stat or not pages:  # it has just ended
        return None
    return TreeUse(cpu_seconds(stat), int(pages[1]) * PAGE)


def cpu_seconds(stat: str) -> float:
    """Return the CPU time of a process, and of its children that were waited for."""
    # The name, in parentheses, may have any character. Then state is field 3, utime field 14.
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / TICKS


@dataclass(frozen=True)
class MemoryGroup:
    """The cgroup whose limit binds first, and what it uses without the page cache it could drop."""

    limit: int
    used: int


def memory_group(proc: str = PROC, root: str = CGROUPS) -> MemoryGroup | None:
    """Return the job's cgroup with the lowest limit; None where there is none or it is not shown.

    Version 2 has one hierarchy, version 1 one for memory.
    """
    for line in read(f"{proc}/self/cgroup").splitlines():
        number, names, path = line.split(":", 2)
        if number == "0" and not names:
            group = _lowest(root, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in names.split(","):
            words = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            group = _lowest(f"{root}/memory", path, words)
        else:
            continue
        if group:
            return group
    return None


def _lowest(root: str, path: str, names: tuple[str, str, str]) -> MemoryGroup | None:
    """Return the group with the lowest limit of this one and those above it."""
    limit_name, used_name, dropped_name = names
    least: MemoryGroup | None = None
    folder = os.path.normpath(root + path)
    while folder.startswith(root):
        limit = read(f"{folder}/{limit_name}").strip()
        used = read(f"{folder}/{used_name}").strip()
        if limit.isdigit() and used.isdigit() and int(limit) < (least.limit if least else NO_LIMIT):
            dropped = _fields(read(f"{folder}/memory.stat")).get(dropped_name, 0)
            least = MemoryGroup(int(limit), max(0, int(used) - dropped))
        folder = os.path.dirname(folder)
    return least


def memory_limit(
    group: MemoryGroup | None, env: Mapping[str, str], proc: str = PROC
) -> tuple[int, str] | None:
    """Return how much memory the job may use on this node, and which limit that is."""
    if group is not None:
        return group.limit, CGROUP
    megabytes = env.get("SLURM_MEM_PER_NODE", "")
    if megabytes.isdigit() and int(megabytes):
        return int(megabytes) << 20, SLURM
    for line in read(f"{proc}/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10, NODE
    return None


def _fields(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


class Nvml:
    """The GPUs that this process may use, by the driver's own library, which `--nv` brings along.

    Each call may hang with a broken GPU. Raises OSError where there is no library or no driver.
    """

    def __init__(self, env: Mapping[str, str], library: Any = None) -> None:
        import ctypes  # here, because small images lack it, and few jobs have GPUs

        self.ctypes = ctypes
        self.library = ctypes.CDLL(NVML) if library is None else library
        if code := self.library.nvmlInit_v2():
            raise OSError(f"nvmlInit_v2 returned {code}")
        self.names: dict[str, str] = {}  # by UUID
        self.handles = {uuid: handle for uuid, handle in self._all() if self._is_ours(uuid, env)}

    def _all(self) -> list[tuple[str, ctypes.c_void_p]]:
        devices = []
        for index in range(self._number("nvmlDeviceGetCount_v2") or 0):
            handle = self.ctypes.c_void_p()
            got = self.library.nvmlDeviceGetHandleByIndex_v2(index, self.ctypes.byref(handle))
            if got != SUCCESS:  # another job's, which its cgroup keeps away
                continue
            uuid = self._text("nvmlDeviceGetUUID", handle) or str(index)
            self.names[uuid] = self._text("nvmlDeviceGetName", handle)
            devices.append((uuid, handle))
        return devices

    def _is_ours(self, uuid: str, env: Mapping[str, str]) -> bool:
        """Whether CUDA_VISIBLE_DEVICES, if it is set, names the GPU by its place or its UUID."""
        if "CUDA_VISIBLE_DEVICES" not in env:
            return True
        place = list(self.names).index(uuid)
        wanted = [name.strip() for name in env["CUDA_VISIBLE_DEVICES"].split(",")]
        return any(name == str(place) or (name and uuid.startswith(name)) for name in wanted)

    def sample(self) -> dict[str, GpuSample]:
        """Return a sample of each GPU, by UUID, with None for what it does not tell."""
        return {uuid: self._look(handle) for uuid, handle in self.handles.items()}

    def _look(self, handle: ctypes.c_void_p) -> GpuSample:
        """Return the share of time with a kernel running, bytes, watts and MHz."""
        use = self._numbers("nvmlDeviceGetUtilizationRates", handle, self.ctypes.c_uint, 2)
        memory = self._numbers("nvmlDeviceGetMemoryInfo", handle, self.ctypes.c_ulonglong, 3)
        power = self._number("nvmlDeviceGetPowerUsage", handle)
        return {
            "use": use[0] / 100 if use else None,
            "memory": memory[2] if memory else None,
            "memory_total": memory[0] if memory else None,
            "power": None if power is None else power / 1000,
            "clock": self._number("nvmlDeviceGetClockInfo", handle, CLOCK_SM),
            "clock_highest": self._number("nvmlDeviceGetMaxClockInfo", handle, CLOCK_SM),
        }

    def _number(self, name: str, *arguments: Any) -> int | None:
        """Return the unsigned int that a function gives; None where it gives none."""
        value = self.ctypes.c_uint()
        got = getattr(self.library, name)(*arguments, self.ctypes.byref(value))
        return value.value if got == SUCCESS else None

    def _numbers(self, name: str, handle: Any, kind: Any, count: int) -> list[int] | None:
        """Return the members of a structure of equal numbers."""
        values = (kind * count)()
        got = getattr(self.library, name)(handle, self.ctypes.byref(values))
        return list(values) if got == SUCCESS else None

    def _text(self, name: str, handle: Any) -> str:
        buffer = self.ctypes.create_string_buffer(LONGEST_NAME)
        got = getattr(self.library, name)(handle, buffer, LONGEST_NAME)
        return buffer.value.decode("utf-8", "replace") if got == SUCCESS else ""
