"""Drivers and GPUs of this machine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from ...injob.rank.gpu import driver_version
from ..question import Answer, ask

AMD = ("/sys/module/amdgpu/version", "/opt/rocm/.info/version")


@dataclass(frozen=True)
class Gpu:
    """NVIDIA's driver version, "" without one; nvidia-smi's list, None without it; AMD's version.

    `amd` is "" without AMD's driver, and "yes" when it does not say its version.
    """

    nvidia: str
    listed: Answer | None
    amd: str


def look() -> Gpu:
    """Ask this machine; the driver may take seconds when nothing keeps it awake."""
    there = shutil.which("nvidia-smi")
    return Gpu(driver_version(), ask(["nvidia-smi", "-L"], 30) if there else None, _amd())


def _amd() -> str:
    for path in AMD:
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return file.readline().strip() or "yes"
    return "yes" if os.path.exists("/dev/kfd") else ""
