"""up, down, status: the cluster as a whole."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cgroups, configure, host, network, nodes, processes, rootfs, slurm
from .design import CONTROLLER, Design
from .shell import ClusterError, run
from .state import Settings, State

READY_SECONDS = 60
JOBS_PER_START = 1000  # job ids go on rising over restarts, so that run folders never collide
SINFO = ("sinfo", "-h", "-N", "-o", "%N %T")


def up(state: State, design: Design) -> bool:
    """Start the cluster; False when it already ran with the same settings, and was left alone."""
    host.require()
    tree = rootfs.ensure(state, design.release)
    state.create_shared()
    old = Settings.load(state.settings)
    fingerprint = _fingerprint(state, tree, design)
    if old.fingerprint == fingerprint and _healthy(state, design.hosts):
        return False
    down(state)
    new = Settings(fingerprint, old.starts + 1, design)
    new.save(state.settings)
    _start_all(state, tree, new)
    return True


def _start_all(state: State, tree: Path, settings: Settings) -> None:
    hosts = settings.design.hosts
    configure.write(state, tree, settings.design, settings.starts * JOBS_PER_START)
    network.create(state.namespaces, settings.design)
    for name in hosts:
        nodes.start(state, tree, name)
    _wait_ready(state, hosts)


def down(state: State) -> None:
    """End the cluster, running or half dead; the shared folders and logs stay."""
    processes.remove(state.namespaces)
    for controller in state.design.controllers:
        cgroups.remove(state.root, state.mountpoint, controller)


def _fingerprint(state: State, tree: Path, design: Design) -> str:
    """Changes with everything the nodes are made from, the checkout's place included."""
    texts = [str(tree), *configure.files(design, first_job=0).values()]
    for name in design.hosts:
        texts.append(slurm.start_script(design, name))
        texts.append(nodes.root_script(state, tree, design, name))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _node_states(state: State) -> dict[str, str]:
    argv = nodes.enter_argv(state, CONTROLLER, SINFO, "root")
    return slurm.parse_node_states(run(argv, timeout=15))


def _healthy(state: State, hosts: Sequence[str]) -> bool:
    if not all(nodes.complete(state, name) for name in hosts):
        return False  # Slurm itself notices a dead slurmd only after SlurmdTimeout
    try:
        return slurm.all_healthy(_node_states(state), hosts[1:])
    except ClusterError:  # a controller that does not answer is the question asked here
        return False


def _wait_ready(state: State, hosts: Sequence[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _healthy(state, hosts):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the nodes are not ready after {READY_SECONDS} s\n{_last_logs(state, hosts)}\n"
                "look further: python3 -m tests.cluster exec --as root -- sinfo -R"
            )
        time.sleep(0.1)


def _last_logs(state: State, hosts: Sequence[str]) -> str:
    texts = []
    for name in hosts:
        for path in sorted((state.logs / name).rglob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-4:]
            texts += [f"--- {path}", *tail] if tail else []
    return "\n".join(texts)


@dataclass(frozen=True)
class NodeStatus:
    """One line of `status`; *pid* is the host's number of the node's process 1."""

    name: str
    address: str
    pid: int | None
    slurm: str


def status(state: State) -> list[NodeStatus]:
    """Each node of the cluster as last started; empty when the cluster is down."""
    inits = nodes.inits(state)
    if not any(inits.values()):
        return []
    hosts = state.design.hosts
    states = _states_or_reason(state, hosts)
    addresses = network.known_addresses(state.design)
    return [NodeStatus(name, addresses[name], inits.get(name), states[name]) for name in hosts]


def _states_or_reason(state: State, hosts: Sequence[str]) -> dict[str, str]:
    try:
        found = {CONTROLLER: "controller", **_node_states(state)}
    except ClusterError as error:
        found = {CONTROLLER: f"no answer: {str(error).splitlines()[-1]}"}
    return {name: found.get(name, "unknown") for name in hosts}
