"""Reads a node's NVIDIA driver and devices from the texts of the driver and nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .run_files import read

DRIVER = "/proc/driver/nvidia/version"
# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023", or
# "... NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build ..."
VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
LIST = ("nvidia-smi", "-L")
# "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5b...)", and its instances below it:
# "  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4...)", before driver 470 "MIG-GPU-5d5b.../1/0"
LISTED = re.compile(r"^\s*(GPU|MIG) .*\(UUID: ([\w/-]+)\)", re.MULTILINE)


def driver_version(file: str = DRIVER) -> str:
    """Return the version of the node's NVIDIA driver; empty when it has none that says so."""
    version = VERSION.search(read(file))
    return version.group(1) if version else ""


def listed(text: str) -> dict[str, list[str]]:
    """Return the instances of each GPU, by its UUID, from the output of `nvidia-smi -L`."""
    gpus: dict[str, list[str]] = {}
    for kind, uuid in LISTED.findall(text):
        if kind == "GPU":
            gpus[uuid] = []
        elif gpus:
            gpus[next(reversed(gpus))].append(uuid)
    return gpus


def devices(gpus: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the devices that processes can use: each instance, and each GPU without any."""
    return [device for uuid, instances in gpus.items() for device in instances or [uuid]]
