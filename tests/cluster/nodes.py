"""One node: its root, its start, and the way in."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import cgroups, namespaces, processes, slurm, toolbox
from .design import Design
from .namespaces import Bind
from .shell import ClusterError
from .state import OTHER, UIDS, State

# The user of images and builds is in the tree itself.
SECOND_USER = f"chroot . useradd --uid {UIDS[OTHER]} --no-create-home --shell /bin/bash {OTHER}"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def root_script(state: State, tree: Path, design: Design, name: str) -> str:
    """The text that makes the root of node *name*."""
    binds = [
        *toolbox.shared_binds(state, design),
        Bind(state.etc / "slurm", "/etc/slurm"),
        Bind(state.etc / "munge", "/etc/munge"),
        Bind(state.etc / "hosts" / name, "/etc/hosts"),
        Bind(state.etc / "profile/site.sh", "/etc/profile.d/site.sh"),
        Bind(state.etc / "modules", "/etc/environment-modules/modules"),
        Bind(state.logs / name, "/var/log", read_only=False),
    ]
    more = [*cgroups.in_the_node(design.controllers), SECOND_USER]
    if second := design.flavour.scratch:  # with what is bound below the first
        more += [f"mkdir -p .{second}", f"mount --rbind ./scratch .{second}"]
    return namespaces.root_script(tree, state.mountpoint, binds, hostname=name, more=more)


def start(state: State, tree: Path, name: str) -> None:
    """Start node *name*; it lives on without us, in a session of its own."""
    log = state.logs / name
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    with open(log / "start.log", "wb") as output:
        subprocess.Popen(
            _argv(state, tree, name),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH},
            cwd="/",
            start_new_session=True,
        )


def _argv(state: State, tree: Path, name: str) -> list[str]:
    # tini is the node's process 1 and reaps what slurmstepd leaves.
    init = ["tini", "--", "bash", "-c", slurm.start_script(state.design, name)]
    root = root_script(state, tree, state.design, name)
    unshare = ["unshare", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]
    network = ["nsenter", f"--net={state.namespaces / name}"]
    if controllers := state.design.controllers:
        network += cgroups.joined_argv(state.root, state.mountpoint, name, controllers)
    return [*network, *unshare, "sh", "-c", root, "sh", *init]


def inits(state: State) -> dict[str, int | None]:
    """Name -> host's number of the node's process 1, None when the node has died.

    The switch, which has no processes, is among the names.
    """
    found = processes.namespaces_below(state.namespaces)
    return {name: processes.find_init(inode) for name, inode in found.items()}


def complete(state: State, name: str) -> bool:
    """Whether the daemons of node *name* are alive."""
    inode = processes.namespaces_below(state.namespaces).get(name)
    wanted = {"tini", *slurm.daemons(state.design.flavour, name)}
    return inode is not None and wanted <= processes.commands(inode)


def enter_argv(
    state: State, name: str, command: Sequence[str], user: str, term: str = ""
) -> list[str]:
    """The host command that runs *command* as *user* on node *name*.

    Raises ClusterError when that node is not running.
    """
    pid = inits(state).get(name)
    if pid is None:
        raise ClusterError(
            f"node '{name}' of the cluster is not running; start it: python3 -m tests.cluster up"
        )
    enter = ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
    return [*enter, *namespaces.login_argv(command, user, term=term)]
