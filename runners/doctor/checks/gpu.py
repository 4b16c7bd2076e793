"""GPUs -> findings."""

from __future__ import annotations

from ...core.remedy import advice
from ..facts.gpu import Gpu
from ..finding import FAILURE, OK, WARNING, Finding

SUBJECT = "GPU"


def check(gpu: Gpu) -> list[Finding]:
    """Return what can be said of this machine's GPUs."""
    found = []
    if gpu.nvidia or gpu.listed:
        found.append(_nvidia(gpu))
    if gpu.amd:
        found.append(Finding(SUBJECT, "AMD driver", OK, gpu.amd, "/sys/module/amdgpu, /dev/kfd"))
    none = "none on this machine; each node is asked when a job starts"
    return found or [Finding(SUBJECT, "driver", OK, none, "no /proc/driver/nvidia, no /dev/kfd")]


def _nvidia(gpu: Gpu) -> Finding:
    name = "NVIDIA driver"
    if not gpu.nvidia:
        evidence = gpu.listed.shown if gpu.listed else ""
        says = "nvidia-smi is here, but the kernel has no driver"
        return Finding(
            SUBJECT,
            name,
            WARNING,
            says,
            evidence,
            advice("--partition NAME, of nodes with GPUs"),
        )
    if gpu.listed is None:
        says = f"{gpu.nvidia}, but nvidia-smi is not on the PATH"
        return Finding(SUBJECT, name, OK, says, "/proc/driver/nvidia/version")
    if gpu.listed.problem:
        # "Driver/library version mismatch": the package was updated and the kernel's part was not.
        says = f"{gpu.nvidia} does not answer: {gpu.listed.problem}"
        fix = "nvidia-smi, and ask the administrators to reload the driver"
        return Finding(SUBJECT, name, FAILURE, says, gpu.listed.shown, advice(fix))
    devices = gpu.listed.out.strip()
    count = len([line for line in devices.splitlines() if line.startswith("GPU ")])
    return Finding(SUBJECT, name, OK, f"{gpu.nvidia}, {count} GPUs", devices)
