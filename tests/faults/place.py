"""The cluster of the faults: two nodes, limits of memory, preemption, and a small scratch.

The scratch is a file system of its own in a file, so that it can be filled (a launch refuses to
keep a run's folder in memory); the image lies in the user's home.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import nodes, processes, rootfs
from tests.cluster.design import CONTROLLER, MEMORY, PREEMPTION
from tests.cluster.shell import ClusterError, run
from tests.cluster.state import CHECKOUT, UID, USER, State

IMAGE = f"/home/{USER}/images/horovod_cpu.sif"
WORKERS = ("n1", "n2")
HOSTS = (CONTROLLER, *WORKERS)
SCRATCH_MB = 400
UP = ("up", "--nodes", str(len(WORKERS)), "--quirk", MEMORY, "--quirk", PREEMPTION)
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Place:
    """A running cluster."""

    state: State

    def command(self, *words: str) -> None:
        """Run a command of the test cluster."""
        argv = [sys.executable, "-m", "tests.cluster", "--state", str(self.state.root), *words]
        subprocess.run(argv, cwd=CHECKOUT, check=True)

    def up(self) -> None:
        """Start what does not run; a cluster that is not well is restarted."""
        self.command(*UP)

    def argv(self, node: str, command: Sequence[str], user: str = USER) -> list[str]:
        """The host's command for one on a node."""
        return nodes.enter_argv(self.state, node, command, user)

    def on(self, node: str, *command: str, user: str = USER, seconds: float = 120) -> Done:
        """Run a command on a node."""
        argv = self.argv(node, command, user)
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)

    def boot(self, node: str) -> None:
        """Start a node that was switched off."""
        tree = rootfs.ensure(self.state, self.state.design.release)
        nodes.start(self.state, tree, node)

    def network_of(self, node: str) -> int:
        """The inode of a node's network namespace, which tells whose a process is."""
        return processes.namespaces_below(self.state.namespaces)[node]

    def host_path(self, path: str) -> Path:
        """Where a path below /scratch lies on this machine."""
        return self.state.scratch / Path(path).relative_to("/scratch")


@contextmanager
def place(folder: str | None) -> Iterator[Place]:
    """Start the cluster; end it afterwards, whatever happened, with all that it had."""
    first = State.locate()
    root = Path(folder).absolute() if folder else first.cache / "faults"
    here = Place(State(first.cache, root))
    here.state.create_shared()
    _mount_scratch(here.state)
    _bring_image(first, here.state)
    try:
        here.up()
        yield here
    finally:
        here.command("down")
        run(["umount", str(here.state.scratch)])
        shutil.rmtree(root)


def _mount_scratch(state: State) -> None:
    if not os.path.ismount(state.scratch):
        disk = state.root / "scratch.ext4"
        run(["truncate", "--size", f"{SCRATCH_MB}M", str(disk)])
        run(["mkfs.ext4", "-q", "-F", "-m", "0", str(disk)])
        run(["mount", "-o", "loop", str(disk), str(state.scratch)])
    state.create_shared()


def _bring_image(first: State, own: State) -> None:
    """Link the image that `make build-cpu` left for the default cluster."""
    name = Path(IMAGE).name
    source = first.scratch / USER / "images" / name
    if not source.exists():
        raise ClusterError(f"{source} is not there: make build-cpu")
    folder = own.home / USER / "images"
    folder.mkdir(exist_ok=True)
    os.chown(folder, UID, UID)
    (folder / name).unlink(missing_ok=True)
    os.link(source, folder / name)
