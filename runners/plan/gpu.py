"""GPUs: what of the host's driver comes in, what carries the gradients, which rank takes which."""

from __future__ import annotations

import re

from ..core import gpus
from ..core.model import ImageInfo, JobSpec, Partition, Resources, Site
from . import driver, partition
from .choices import Notes


def choose(spec: JobSpec, site: Site, image: ImageInfo, where: str, notes: Notes) -> str:
    """Choose nv, rocm or "" for the runtime; refuse GPUs that the partition does not have."""
    wanted = gpus.on_a_node(spec.resources)
    if wanted:
        _check_partition(wanted, spec.resources, site, notes)
    vendor = _vendor(spec, site, image, wanted, notes)
    if vendor == "nv":
        found = driver.check(where, site, image, notes)
        notes.decisions += found
    if vendor and wanted:
        _binding(spec.resources, wanted, notes)
    return vendor


def _vendor(
    spec: JobSpec, site: Site, image: ImageInfo, wanted: tuple[str, int] | None, notes: Notes
) -> str:
    for flag, value in (("nv", spec.nv), ("rocm", spec.rocm)):
        if value:
            notes.choose(f"--{flag}", "yes", "as asked")
            return flag
    if spec.nv is False or not wanted:
        reason = "as asked" if spec.nv is False else "the job asks for no GPU"
        notes.choose("--nv", "no", reason)
        return ""
    if image.fact("cuda.version") == "none" and not _is_amd(wanted[0], site):
        notes.refuse(
            f"the job asks for GPUs, and {image.path.name} cannot use them",
            image.how("cuda.version"),
            "--image horovod_gpu.sif",
        )
    if _is_amd(wanted[0], site):
        notes.choose("--rocm", "yes", "the job asks for GPUs, and they are AMD's")
        return "rocm"
    notes.choose("--nv", "yes", "the job asks for GPUs")
    return "nv"


def _is_amd(kind: str, site: Site) -> bool:
    """AMD's data centre GPUs are named MI50 to MI355X; else what this machine has counts."""
    return bool(re.match(r"mi\d", kind, re.IGNORECASE)) or (not kind and site.amd)


def _check_partition(
    wanted: tuple[str, int], resources: Resources, site: Site, notes: Notes
) -> None:
    there = partition.of(resources, site)
    if there is None:
        return
    kind, number = wanted
    evidence = f"sinfo: {there.name} has {_listed(there)}"
    others = [p.name for p in site.partitions if _has(p, kind, number)]
    remedies = tuple(f"--partition {name}" for name in others)
    if not there.gpus:
        notes.refuse(f"partition {there.name} has no GPUs", evidence, *remedies)
    elif kind and kind.lower() not in {name.lower() for name, _ in there.gpus}:
        notes.refuse(f"partition {there.name} has no GPUs of type {kind}", evidence, *remedies)
    elif not _has(there, kind, number):
        notes.refuse(
            f"no node of partition {there.name} has {number} GPUs",
            evidence,
            *remedies,
        )


def _has(there: Partition, kind: str, number: int) -> bool:
    """Whether a node has so many of the kind; without a kind those of one node add up."""
    fitting = [n for name, n in there.gpus if not kind or name.lower() == kind.lower()]
    return bool(fitting) and number <= (max(fitting) if kind else sum(fitting))


def _listed(there: Partition) -> str:
    return ", ".join(f"{n} x {kind or 'GPU'}" for kind, n in there.gpus) or "no GPUs"


def _binding(resources: Resources, wanted: tuple[str, int], notes: Notes) -> None:
    tasks = -(-resources.tasks // resources.nodes)
    number = wanted[1] or tasks
    if resources.gpus_per_task:
        reason = "--gpus-per-task: each rank sees its own, numbered 0; they may lose peer-to-peer"
        notes.choose("GPU of a rank", "the visible one", reason)
        return
    notes.choose(
        "GPU of a rank",
        "local rank modulo the visible ones",
        f"each rank sees the {number} of its node, which keeps peer-to-peer",
    )
    if tasks < number:
        notes.warn(f"{tasks} ranks on a node with {number} GPUs: {number - tasks} stay idle")
    if gpus.MIG.search(wanted[0]) and tasks > 1:
        notes.warn(
            "parts of GPUs (MIG) have no peer-to-peer: NCCL between them goes through the host"
        )


def data_plane(
    resources: Resources, image: ImageInfo, controller: str, vendor: str, notes: Notes
) -> str:
    """Choose what carries the gradients: nccl, mpi or gloo."""
    operations = image.listed("horovod.operations")
    if vendor and (not operations or "nccl" in operations):
        _one_rank_for_a_gpu(resources, notes)
        known = image.how("horovod.operations")
        return notes.choose("data", "nccl", "GPUs, and Horovod's fastest way between them", known)
    if vendor and image.fact("cuda.version") != "none":
        notes.warn(
            f"Horovod in {image.path.name} has no NCCL: gradients go through the CPUs' memory"
        )
    return notes.choose("data", controller, "the CPUs' way that goes with the controller")


def _one_rank_for_a_gpu(resources: Resources, notes: Notes) -> None:
    wanted = gpus.on_a_node(resources)
    tasks = -(-resources.tasks // resources.nodes)
    if wanted and wanted[1] and tasks > wanted[1] and not resources.gpus_per_task:
        fits = resources.nodes * wanted[1]
        notes.refuse(
            f"{tasks} ranks on a node with {wanted[1]} GPUs: NCCL refuses two ranks on one GPU",
            "NCCL: Duplicate GPU detected (ncclInvalidUsage)",
            f"--ntasks {fits}" if resources.ntasks else f"--ntasks-per-node {wanted[1]}",
        )
