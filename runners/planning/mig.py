"""MIG: parts of a GPU, which NCCL takes for the GPU that they are of."""

from __future__ import annotations

from collections.abc import Iterable

from ..contract.versions import older
from ..core import gpus
from ..core.model import ImageInfo, SchedulerName
from ..core.remedy import change
from ..core.site import NodeGroup
from ..schedulers import capabilities
from . import partition
from .case import Case, DecisionLog, RankResources

ONE_GPU = "NCCL_MULTI_RANK_GPU_ENABLE"  # allows several ranks on one GPU
# Of NCCL. 2.31.2 has formed a communicator of four instances with ONE_GPU, and not without it;
# older ones refuse them (github.com/NVIDIA/nccl/issues/1716).
SINCE = "2.31"
GPU_REQUESTS = ("gpus", "gpus-per-task", "gres")
REQUESTS = (*GPU_REQUESTS, "ntasks", "ntasks-per-node")


def nccl_takes_instances(image: ImageInfo) -> bool:
    """Whether the image's NCCL can have two ranks on instances of one GPU."""
    version = image.fact("nccl.version")
    return version not in ("", "none") and not older(version, SINCE)


def beside_whole(groups: Iterable[NodeGroup]) -> bool:
    """Whether nodes have instances and whole GPUs, of which a request without a type gets any."""
    kinds = {kind for group in groups for kind, number in group.gpus if number}
    return len({bool(gpus.MIG.search(kind)) for kind in kinds}) > 1


def warn_of_any(
    case: Case,
    resources: RankResources,
    scheduler: SchedulerName,
    wanted: tuple[str, int],
    log: DecisionLog,
) -> None:
    """Warn of a request without a type, where Slurm may give instances for whole GPUs."""
    chosen = partition.of(case.site, resources)
    if wanted[0] or not wanted[1] or chosen is None or not capabilities(scheduler).tells_nodes:
        return
    groups = partition.groups(chosen, resources.constraint)
    if not beside_whole(groups):
        return
    kinds = [kind for group in groups for kind, _ in group.gpus]
    whole = [kind for kind in dict.fromkeys(kinds) if kind and not gpus.MIG.search(kind)]
    numbers = [min(wanted[1], max(group.count(kind) for group in groups)) for kind in whole]
    requests = [gpus.request(kind, number) for kind, number in zip(whole, numbers)]
    log.warn(
        "mig-beside-whole",
        f"partition {chosen.name} has {partition.listed(chosen)}: a request for GPUs of any type "
        "may get MIG instances",
        *(change(gpus_per_node=request, leave_out=GPU_REQUESTS) for request in requests),
    )


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
