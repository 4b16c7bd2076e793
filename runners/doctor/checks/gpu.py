"""Drivers and GPUs of this machine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from ...injob.rank.hardware import driver_version
from ..finding import About, Finding
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


ABOUT = About("GPU")


def check(gpu: Gpu) -> list[Finding]:
    findings = []
    if gpu.nvidia or gpu.listed:
        findings.append(_nvidia(gpu))
    if gpu.amd:
        findings.append(ABOUT.ok("AMD driver", gpu.amd, "/sys/module/amdgpu, /dev/kfd"))
    none = "none on this machine; each node is asked when a job starts"
    return findings or [ABOUT.ok("driver", none, "no /proc/driver/nvidia, no /dev/kfd")]


def _nvidia(gpu: Gpu) -> Finding:
    name = "NVIDIA driver"
    if not gpu.nvidia:
        evidence = gpu.listed.shown if gpu.listed else ""
        says = "nvidia-smi is here, but the kernel has no driver"
        return ABOUT.warning(name, says, evidence, "--partition NAME, of nodes with GPUs")
    if gpu.listed is None:
        says = f"{gpu.nvidia}, but nvidia-smi is not on the PATH"
        return ABOUT.ok(name, says, "/proc/driver/nvidia/version")
    if gpu.listed.problem:
        # "Driver/library version mismatch": the package was updated and the kernel's part was not.
        says = f"{gpu.nvidia} does not answer: {gpu.listed.problem}"
        fix = "nvidia-smi, and ask the administrators to reload the driver"
        return ABOUT.failure(name, says, gpu.listed.shown, fix)
    devices = gpu.listed.out.strip()
    count = sum(line.startswith("GPU ") for line in devices.splitlines())
    return ABOUT.ok(name, f"{gpu.nvidia}, {count} GPUs", devices)
