"""Launchers that start a node's ranks themselves: one agent on each node, under our shim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

from ..processes import run_module


@dataclass(frozen=True)
class Node:
    """This agent's place: its number among `nodes`, its `ranks`, and rank 0's address and port.

    `logs` is a folder of the run in which the agents of all nodes may keep files.
    """

    number: int
    nodes: int
    ranks: int
    address: str
    port: int
    logs: str


def torchrun(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return torchrun's command, as in PyTorch's documentation of torchrun.

    The rendezvous is the static one: that of c10d unpickles what anybody on the network has put
    into the store at this port. Without --log-dir a folder stays in /tmp.
    """
    return [
        "torchrun",
        f"--nnodes={node.nodes}",
        f"--nproc-per-node={node.ranks}",
        "--rdzv-backend=static",
        f"--node-rank={node.number}",
        f"--master-addr={node.address}",
        f"--master-port={node.port}",
        f"--log-dir={node.logs}",
        *([] if is_python(trainer) else ["--no-python"]),
        *trainer,
    ]


def accelerate(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return accelerate's command; --multi_gpu is its word for several processes a node."""
    several = node.nodes * node.ranks > 1
    return [
        *("accelerate", "launch", *["--multi_gpu"] * several),
        f"--num_machines={node.nodes}",
        f"--num_processes={node.nodes * node.ranks}",
        f"--machine_rank={node.number}",
        f"--main_process_ip={node.address}",
        f"--main_process_port={node.port}",
        "--rdzv_backend=static",
        f"--log_dir={node.logs}",
        *_with_options(trainer),
    ]


def deepspeed(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return what DeepSpeed's own runner starts on each node by ssh (deepspeed/launcher)."""
    import base64  # here, because `runner` imports this module for its names alone
    import json

    slots = {f"node{number}": list(range(node.ranks)) for number in range(node.nodes)}
    world = base64.urlsafe_b64encode(json.dumps(slots).encode()).decode()
    return [
        *("python3", "-u", *run_module("deepspeed.launcher.launch")),
        f"--world_info={world}",
        f"--node_rank={node.number}",
        f"--master_addr={node.address}",
        f"--master_port={node.port}",
        *_with_options(trainer),
    ]


AGENTS: dict[str, Callable[[Node, Sequence[str]], list[str]]] = {
    "torchrun": torchrun,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
}


def is_python(trainer: Sequence[str]) -> bool:
    """Whether a command is `-m MODULE` or a file of Python's, and not a program."""
    return trainer[0] == "-m" or trainer[0].endswith(".py")


def _with_options(trainer: Sequence[str]) -> list[str]:
    """Return the command in accelerate's and DeepSpeed's words."""
    if trainer[0] == "-m":
        return ["--module", *trainer[1:]]
    return [*trainer] if is_python(trainer) else ["--no_python", *trainer]
