"""Checks of the GPUs of this machine and of their drivers."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from ...contract.nvidia import driver_version
from ...core import places
from ...core.machine import architecture
from ...core.remedy import command
from ...planning import gpu_image
from ..finding import About, Finding
from ..timed import Answer, ask

# "GPU 0: NVIDIA H200 (UUID: GPU-...)"
DEVICE = re.compile(r"^GPU \d+: (.+?)(?: \(UUID|$)", re.MULTILINE)
AMD = ("/sys/module/amdgpu/version", "/opt/rocm/.info/version")


@dataclass(frozen=True)
class Gpu:
    """NVIDIA's driver version, "" without one; nvidia-smi's list, None without it; AMD's version.

    `amd` is "" without AMD's driver, and "yes" when it does not say its version. `images` are the
    files of ours for GPUs that were built here.
    """

    nvidia: str
    listed: Answer | None
    amd: str
    images: tuple[str, ...] = ()


def probe() -> Gpu:
    """Ask this machine; the driver may take seconds when nothing keeps it awake."""
    program = shutil.which("nvidia-smi")
    listed = ask(["nvidia-smi", "-L"], 30) if program else None
    names = (gpu_image.CUDA12, gpu_image.CUDA13)
    built = tuple(name for name in names if (places.images() / name).exists())
    return Gpu(driver_version(), listed, _amd(), built)


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
        findings += _image(gpu)
    if gpu.amd:
        findings.append(ABOUT.ok("AMD driver", gpu.amd, "/sys/module/amdgpu, /dev/kfd"))
    none = "none on this machine; each node is asked when a job starts"
    return findings or [ABOUT.ok("driver", none, "no /proc/driver/nvidia, no /dev/kfd")]


def _image(gpu: Gpu) -> list[Finding]:
    """Recommend the image for the driver and the first GPU."""
    if not gpu.nvidia or gpu.listed is None or gpu.listed.problem:
        return []
    first = DEVICE.search(gpu.listed.out)
    kind = first[1] if first else ""
    fitting = gpu_image.recommended(kind, gpu.nvidia, architecture=architecture())
    if fitting is None:
        number = gpu_image.capability(kind) or "unknown"
        evidence = f"driver {gpu.nvidia}, {kind}: compute capability {number}"
        says = "no image of this project has code for this GPU, or runs with this driver"
        fix = "an image with an older CUDA: runner build --from docker://IMAGE --horovod"
        return [ABOUT.warning("image", says, evidence, fix)]
    build = () if fitting.image in gpu.images else (command("runner", "build", fitting.short),)
    says = f"{fitting.image} is for this machine: {fitting.because}"
    return [ABOUT.ok("image", says, f"driver {gpu.nvidia}, {kind}", build)]


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
