"""MIG: parts of a GPU, which NCCL takes for the GPU that they are of."""

from __future__ import annotations

from ..contract.versions import older
from ..core.model import ImageInfo
from ..core.remedy import change
from .case import Case, DecisionLog

ONE_GPU = "NCCL_MULTI_RANK_GPU_ENABLE"  # allows several ranks on one GPU
# Of NCCL. 2.31.2 has formed a communicator of four instances with ONE_GPU, and not without it;
# older ones refuse them (github.com/NVIDIA/nccl/issues/1716).
SINCE = "2.31"
REQUESTS = ("gpus", "gpus-per-task", "gres", "ntasks", "ntasks-per-node")


def nccl_takes_instances(image: ImageInfo) -> bool:
    """Whether the image's NCCL can have two ranks on instances of one GPU."""
    version = image.fact("nccl.version")
    return version not in ("", "none") and not older(version, SINCE)


def warn(case: Case, kind: str, log: DecisionLog) -> None:
    """Warn of several ranks of a node on instances of a kind, where NCCL connects them."""
    version = case.image.fact("nccl.version")
    what = "refuses two ranks on MIG instances of one GPU"
    if not nccl_takes_instances(case.image):
        remedy = change(gpus_per_node=f"{kind}:1", leave_out=REQUESTS)
        log.warn("mig-nccl", f"NCCL {version or f'before {SINCE}'} {what}", remedy)
    elif dict(case.spec.env).get(ONE_GPU) != "1":
        log.warn(
            "mig-nccl-untold",
            f"NCCL {version} {what}, unless it is told",
            change(env=f"{ONE_GPU}=1"),
        )
