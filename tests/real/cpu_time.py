"""CPU seconds of each real test, with its cluster's: the ten most expensive are printed at the end.

A worker of pytest-xdist and its cluster are a control group of their own. Where this machine has
none to give, nothing is measured and nothing printed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cluster import processes
from tests.cluster.state import State

# Control groups of version 1 and 2 -> where a group's CPU time stands, in which unit of a second
KINDS = {
    Path("/sys/fs/cgroup/cpuacct"): ("cpuacct.usage", 1e-9),
    Path("/sys/fs/cgroup"): ("cpu.stat", 1e-6),
}
SHOWN = 10
SECONDS = "cpu_seconds"  # the property of a test's last report


class Group:
    """The control group of this worker; `seconds` is None where there is none."""

    def __init__(self) -> None:
        self.folder, self.file, self.unit = _make(f"kit-test-{os.getpid()}")
        self.join([os.getpid()])

    def join_cluster(self, state: State) -> None:
        """Take in a cluster that was started before; later ones are started by this worker."""
        inodes = processes.namespaces_below(state.namespaces).values()
        self.join(processes.members("net", inodes))

    def join(self, pids: Iterable[int]) -> None:
        if self.folder:
            _move(pids, self.folder)

    def leave(self) -> None:
        """Move all that runs in the group to the top, and remove the group."""
        if self.folder:
            _move(map(int, (self.folder / "cgroup.procs").read_text().split()), self.folder.parent)
            with contextlib.suppress(OSError):  # what began in this moment is in it
                self.folder.rmdir()

    @property
    def seconds(self) -> float | None:
        """CPU time of all that ran in the group so far."""
        if self.folder is None:
            return None
        used = (self.folder / self.file).read_text().removeprefix("usage_usec").split()[0]
        return int(used) * self.unit


GROUP = pytest.StashKey[Group]()
BEFORE = pytest.StashKey[float]()  # seconds that the group had used when a test began


def _move(pids: Iterable[int], folder: Path) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            (folder / "cgroup.procs").write_text(str(pid))


def _make(name: str) -> tuple[Path | None, str, float]:
    for top, (file, unit) in KINDS.items():
        with contextlib.suppress(OSError):
            (top / name).mkdir(exist_ok=True)
            if (top / name / file).exists():
                return top / name, file, unit
    return None, "", 0.0


def shown(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the most expensive tests, the dearest first, and the sum of all."""
    used = {report.nodeid: dict(report.user_properties).get(SECONDS) for report in reports}
    seconds = {nodeid: float(str(value)) for nodeid, value in used.items() if value is not None}
    dearest = sorted(seconds, key=lambda nodeid: -seconds[nodeid])[:SHOWN]
    lines = [f"{seconds[nodeid]:7.1f}  {nodeid}" for nodeid in dearest]
    return [*lines, f"{sum(seconds.values()):7.1f}  all {len(seconds)}"] if seconds else []
