"""Gives each rank an instance of its own where MIG divides the GPUs.

A process can use one instance, whatever it sees (NVIDIA, MIG User Guide, "CUDA Device
Enumeration"), so two ranks that see the same two would both take the first. Instances are named by
their UUIDs, which Slurm and PBS put into CUDA_VISIBLE_DEVICES; where it has numbers, or is not set,
nvidia-smi lists them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from glob import glob

from ...contract.nvidia import LIST, devices, listed
from .startup import INSTANCES, VISIBLE

INSTANCE = "MIG-"  # how its UUID begins
SECONDS_TO_LIST = 20
BOUND = re.compile(r"\bgpu:(per_task|single)\b")  # in "gres/gpu:per_task:1" (Slurm 24.11)
# The driver's folders: "mig" is always there, and below a GPU's those of its instances.
CAPABILITIES = "/proc/driver/nvidia/capabilities"


def named(visible: str | None, gpus: Mapping[str, Sequence[str]], ranks: int) -> list[str]:
    """Return the devices that CUDA_VISIBLE_DEVICES names, all where it is not set.

    A number counts devices. Where that gives fewer devices than `ranks` on this node, it counts
    whole GPUs, each with all its instances.
    """
    every, wholes = devices(gpus), list(gpus.items())
    if visible is None:
        return every
    words = [word.strip() for word in visible.split(",") if word.strip()]
    if not all(word.isdigit() for word in words):
        return [device for word in words for device in gpus.get(word) or [word]]
    if len(words) == len(every):  # Slurm's numbers count all, and its cgroup shows the job's alone
        return every
    numbers = [int(word) for word in words]
    if len(numbers) < ranks:
        return devices(dict(wholes[number] for number in numbers if number < len(wholes)))
    return [every[number] for number in numbers if number < len(every)]


def instances(env: Mapping[str, str], ranks: int) -> list[str]:
    """Return the devices of a node's ranks where MIG divides its GPUs; none where it does not."""
    visible = env.get(VISIBLE)
    if visible is not None and INSTANCE in visible:
        gpus: dict[str, list[str]] = {}
    else:
        gpus = listed(_list()) if _may_be_divided() else {}
        if len(devices(gpus)) < 2:  # there is no other, and libraries may want a number for it
            return []
    found = named(visible, gpus, ranks)
    return found if any(device.startswith(INSTANCE) for device in found) else []


def of_rank(local_rank: int, ranks: int, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which a rank sees its own instance; the node has `ranks` ranks.

    Where Slurm has bound GPUs to tasks, as --gpus-per-task does, what a rank sees is its own.
    """
    bound = BOUND.search(env.get("SLURM_TRES_BIND", "")) or "SLURM_GPUS_PER_TASK" in env
    names = instances(env, 1 if bound else ranks)
    return {VISIBLE: names[local_rank % len(names)]} if names else {}


def for_workers(workers: int, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which each worker of an agent finds its instance (startup.py)."""
    names = instances(env, workers)
    return {INSTANCES: ",".join(names)} if names else {}


def _may_be_divided() -> bool:
    """Whether the driver has instances, or does not say: nvidia-smi may take seconds."""
    return not os.path.isdir(CAPABILITIES) or bool(glob(f"{CAPABILITIES}/gpu*/mig/gi*"))


def _list() -> str:
    import subprocess  # most jobs need none

    try:
        done = subprocess.run(LIST, check=False, capture_output=True, timeout=SECONDS_TO_LIST)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
