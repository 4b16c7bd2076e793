"""Launchers that start a node's ranks themselves: one agent on each node, under our shim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Node:
    """This agent's place: its number among `nodes`, its `ranks`, and rank 0's address and port.

    `job` is a name that all agents of the job have, `own_address` is where others reach this one.
    """

    number: int
    nodes: int
    ranks: int
    address: str
    port: int
    own_address: str
    job: str


def torchrun(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return torchrun's command, as in PyTorch's documentation of torchrun.

    `is_host`: by itself the agent compares the address with its host's name, which may mislead.
    """
    return [
        "torchrun",
        f"--nnodes={node.nodes}",
        f"--nproc-per-node={node.ranks}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={_host(node.address)}:{node.port}",
        f"--rdzv-id={node.job}",
        f"--rdzv-conf=is_host={int(node.number == 0)}",
        f"--local-addr={node.own_address}",
        *([] if _python(trainer) else ["--no-python"]),
        *trainer,
    ]


def accelerate(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return accelerate's command; --multi_gpu is its word for several processes a node."""
    several = node.nodes * node.ranks > 1
    module = trainer[0] == "-m"
    return [
        *("accelerate", "launch", *(["--multi_gpu"] if several else [])),
        f"--num_machines={node.nodes}",
        f"--num_processes={node.nodes * node.ranks}",
        f"--machine_rank={node.number}",
        f"--main_process_ip={node.address}",
        f"--main_process_port={node.port}",
        *(["--module", *trainer[1:]] if module else _plain(trainer, "--no_python")),
    ]


def deepspeed(node: Node, trainer: Sequence[str]) -> list[str]:
    """Return what DeepSpeed's own runner starts on each node by ssh (deepspeed/launcher)."""
    import base64  # here, because `runner` imports this module for its names alone
    import json

    slots = {f"node{number}": list(range(node.ranks)) for number in range(node.nodes)}
    world = base64.urlsafe_b64encode(json.dumps(slots).encode()).decode()
    module = trainer[0] == "-m"
    return [
        *("python3", "-u", "-m", "deepspeed.launcher.launch"),
        f"--world_info={world}",
        f"--node_rank={node.number}",
        f"--master_addr={node.address}",
        f"--master_port={node.port}",
        *(["--module", *trainer[1:]] if module else _plain(trainer, "--no_python")),
    ]


AGENTS: dict[str, Callable[[Node, Sequence[str]], list[str]]] = {
    "torchrun": torchrun,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
}


def _python(trainer: Sequence[str]) -> bool:
    return trainer[0] == "-m" or trainer[0].endswith(".py")


def _plain(trainer: Sequence[str], no_python: str) -> list[str]:
    return [*trainer] if _python(trainer) else [no_python, *trainer]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
