"""The command of a rank: the trainer, a launcher that starts a node's ranks, or a profiler.

Such a launcher runs as an agent on each node, under our shim. A profiler of `--profile-with`, such
as `nsys profile`, has the trainer as its child, in the same container; its output goes into the
run's folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from ...contract.rank_command import OUTPUT, is_python, parse_ranks
from ...contract.run_files import PROFILE
from ..processes import run_module, tree

if TYPE_CHECKING:
    from ..task import Task
    from .shim_options import ShimOptions


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

    The rendezvous is the static one: c10d's unpickles data that any host of the network can put
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
    return [
        *("accelerate", "launch"),
        *(["--multi_gpu"] if node.nodes * node.ranks > 1 else []),
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
    import base64  # here, because few jobs need it
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


def _with_options(trainer: Sequence[str]) -> list[str]:
    """Return the trainer's command as accelerate and DeepSpeed take it."""
    if trainer[0] == "-m":
        return ["--module", *trainer[1:]]
    return [*trainer] if is_python(trainer) else ["--no_python", *trainer]


def is_profiled(options: ShimOptions, rank: int) -> bool:
    chosen = parse_ranks(options.profile_ranks)
    return bool(options.profile_with) and (chosen is None or any(rank in ranks for ranks in chosen))


def with_profiler(options: ShimOptions, task: Task) -> list[str]:
    """Return the rank's whole command: the image's profiler, or the one that was mounted.

    Raises FileNotFoundError, with a message, where there is neither.
    """
    name, *words = shlex.split(options.profile_with)
    program = shutil.which(name) or shutil.which(options.profile_tool)
    if program is None:
        what = f"executable file {name}" if "/" in name else f"{name} on the PATH of the image"
        raise FileNotFoundError(f"--profile-with: no {what} on {task.host}")
    folder = os.path.join(options.run_dir, PROFILE)
    os.makedirs(folder, 0o755, exist_ok=True)
    output = os.path.join(folder, f"rank-{task.rank}")
    return [program, *(word.replace(OUTPUT, output) for word in words), *_trainer(options.command)]


def _trainer(command: Sequence[str]) -> list[str]:
    return [sys.executable, *command] if is_python(command) else [*command]


def pid_of_trainer(child: int, command: Sequence[str]) -> int:
    """Return the trainer below a profiler, which may not pass signals on; else the profiler."""
    line = b"".join(os.fsencode(word) + b"\0" for word in _trainer(command))
    for pid in tree(child):
        # It may have just ended.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read() == line:
                return pid
    return child
