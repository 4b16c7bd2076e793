"""GPUs: the host's driver in the container, the gradient transport, the GPU of each rank."""

from __future__ import annotations

from ..contract.enums import Controller, ProcessGroup
from ..contract.versions import older
from ..core import gpus
from ..core.model import DataPlane, GpuVendor, SchedulerName
from ..core.plan import ChoiceId, GpuOfRank, Gpus
from ..core.remedy import advice, change
from ..core.site import Site
from ..core.text import count
from . import gpu_default, gpu_driver, gpu_image, gpu_nodes, mig, partition
from .case import Case, DecisionLog, RankResources

RDMA = "rdma.libraries"
SHARING, SHARING_FROM = "allow-task-sharing", "23.11"
ONE_GPU_FROM = "2.30"  # of NCCL (env.rst): several ranks on one GPU, experimental


def choose(
    case: Case,
    resources: RankResources,
    scheduler: SchedulerName,
    controller: Controller,
    log: DecisionLog,
) -> Gpus:
    """Choose what the runtime brings in and what carries the gradients.

    Refuses GPUs that the partition does not have.
    """
    wanted = gpus.on_a_node(resources)
    if wanted:
        partition.check_gpus(wanted, case.site, resources, log)
        mig.warn_of_any(case, resources, scheduler, wanted, log)
    vendor = _vendor(case, resources, wanted, log)
    if vendor is GpuVendor.NVIDIA:
        gpu_image.check_code(case, resources, wanted[0] if wanted else "", log)
        gpu_driver.check(case, resources, scheduler, log)
        gpu_driver.library_order(case, log)
    if vendor and wanted:
        _binding(case, resources, wanted, log)
    data_plane, reason, evidence = _carrier(case, resources, vendor, controller, log)
    log.choose(ChoiceId.GRADIENT_TRANSPORT, data_plane, reason, evidence)
    if data_plane is DataPlane.NCCL and resources.nodes > 1:
        _verbs(case, log)
    return Gpus(vendor, case.image.fact(gpu_driver.MINIMUM) or None, data_plane)


def _vendor(
    case: Case, resources: RankResources, wanted: tuple[str, int] | None, log: DecisionLog
) -> GpuVendor | None:
    """Choose whose driver comes in; `wanted` are type and number of GPUs on a node."""
    spec, why = case.spec, "the job requests GPUs"
    for vendor, option, given in (
        (GpuVendor.NVIDIA, ChoiceId.NV, spec.nv),
        (GpuVendor.AMD, ChoiceId.ROCM, spec.rocm),
    ):
        if given:
            log.choose(option, True, case.why(option))
            _usable(case, resources, vendor, why if wanted else f"--{option} is for GPUs", log)
            return vendor
    for_gpus = gpu_default.of_image(case.image)
    if spec.nv is False or not (wanted or (for_gpus and gpus.by_sbatch(spec.sbatch_args))):
        reason = case.why(ChoiceId.NV) if spec.nv is False else "the job requests no GPU"
        log.choose(ChoiceId.NV, False, reason)
        return None
    kind = wanted[0] if wanted else ""
    if _is_amd(kind, case.site) or (for_gpus is GpuVendor.AMD and not kind):
        log.choose(ChoiceId.ROCM, True, f"{why}, and they are AMD GPUs")
        return GpuVendor.AMD
    _usable(case, resources, GpuVendor.NVIDIA, why, log)
    log.choose(ChoiceId.NV, True, why)
    return GpuVendor.NVIDIA


def _usable(
    case: Case, resources: RankResources, vendor: GpuVendor, why: str, log: DecisionLog
) -> None:
    """Refuse GPUs for an image that cannot use them."""
    image = case.image
    fact = "cuda.version" if vendor is GpuVendor.NVIDIA else "rocm.version"
    if image.fact(fact) != "none":
        return
    wanted = gpus.on_a_node(resources)
    better = gpu_image.for_job(case, resources, wanted[0] if wanted else "")
    log.refuse(
        "image-without-gpu",
        f"{why}, but {image.path.name} cannot use them",
        image.how(fact),
        change(image=better.image if better else gpu_image.CUDA12),
        gpu_default.on_cpus(case, resources),
    )


def _is_amd(kind: str, site: Site) -> bool:
    """Whether GPUs are AMD's, by their type; else what this machine has counts."""
    return bool(gpu_nodes.AMD.match(kind)) or (not kind and site.amd)


def _binding(
    case: Case, resources: RankResources, wanted: tuple[str, int], log: DecisionLog
) -> None:
    tasks = resources.tasks_of_a_node
    number = wanted[1] or tasks
    if resources.gpus_per_task:
        _bound_by_slurm(case, resources, log)
        return
    if gpus.MIG.search(wanted[0]):
        why = "each rank sees a MIG instance of its own: a process can use one"
        log.choose(ChoiceId.GPU_OF_A_RANK, GpuOfRank.VISIBLE, why)
    else:
        why = f"each rank sees all {number} of its node, which keeps peer-to-peer"
        log.choose(ChoiceId.GPU_OF_A_RANK, GpuOfRank.LOCAL_RANK, why)
    if tasks < number:
        ranks, idle = count(tasks, "rank"), number - tasks
        log.warn("gpus-idle", f"{ranks} on a node with {number} GPUs: {idle} of them idle")


def _bound_by_slurm(case: Case, resources: RankResources, log: DecisionLog) -> None:
    """Warn of what --gpus-per-task costs: a rank reaches no other GPU of its node.

    NOTE: from 23.11 on srun's --gres-flags=allow-task-sharing leaves a rank its GPU in
    CUDA_VISIBLE_DEVICES, and the others' devices open (srun(1)).
    """
    spec = case.spec
    shared = any(SHARING in arg for arg in (*spec.srun_args, *spec.sbatch_args))
    also = "the others stay reachable" if shared else "peer-to-peer may be lost"
    log.choose(
        ChoiceId.GPU_OF_A_RANK,
        GpuOfRank.VISIBLE,
        f"--gpus-per-task: each rank sees its own; {also}",
    )
    if shared or resources.tasks_of_a_node < 2:
        return
    kind, number = gpus.typed(resources.gpus_per_task or "1")
    whole = gpus.request(kind, number * resources.tasks_of_a_node)
    offers = [change(gpus_per_node=whole, leave_out=["gpus-per-task"])]
    if case.site.slurm_version and not older(case.site.slurm_version, SHARING_FROM):
        offers.append(change(srun_arg=f"--gres-flags={SHARING}"))
    log.warn(
        "gpus-per-task-peers",
        "with --gpus-per-task a rank cannot open the other GPUs of its node: NCCL may lose "
        "peer-to-peer (NVLink)",
        *offers,
    )


def _carrier(
    case: Case,
    resources: RankResources,
    vendor: GpuVendor | None,
    controller: Controller,
    log: DecisionLog,
) -> tuple[DataPlane, str, str]:
    """Return what carries the gradients, the reason and the evidence."""
    image, trainer = case.image, case.spec.trainer
    operations = image.listed("horovod.operations")
    world = trainer.world or trainer.seen_world
    if trainer.is_alone:
        return DataPlane(controller.value), "one process exchanges none", ""
    if world in (ProcessGroup.TORCH, ProcessGroup.TENSORFLOW):
        if vendor:
            _one_rank_for_a_gpu(case, resources, log)
        on_cpus = DataPlane.GLOO if world is ProcessGroup.TORCH else DataPlane.GRPC
        return DataPlane.NCCL if vendor else on_cpus, f"the default of {world}", ""
    if vendor and (not operations or "nccl" in operations):
        _one_rank_for_a_gpu(case, resources, log)
        reason = "GPUs; NCCL is Horovod's fastest transport for them"
        return DataPlane.NCCL, reason, image.how("horovod.operations")
    if vendor and image.fact("cuda.version") != "none":
        log.warn(
            "no-nccl", f"Horovod in {image.path.name} has no NCCL: gradients go through host memory"
        )
    return DataPlane(controller.value), "the CPU transport of the controller", ""


def _verbs(case: Case, log: DecisionLog) -> None:
    """Warn of an image in which NCCL cannot reach InfiniBand and RoCE cards.

    NOTE: NCCL opens libibverbs by name (src/misc/ibvsymbols.cc), and without it says nothing unless
    NCCL_DEBUG=INFO. Our images have it, as their self-test proves.
    """
    image = case.image
    if not image.fact(RDMA) or "libibverbs.so.1" in image.listed(RDMA):
        return
    packages = "libibverbs1, librdmacm1 and ibverbs-providers (Debian's names)"
    log.warn(
        "no-verbs",
        f"{image.path.name} has no libibverbs: between nodes NCCL uses TCP, even where there is "
        "InfiniBand or RoCE, unless the site's own NCCL plugin is bound in",
        advice(f"{packages}, in an image of your own: runner build --from IMAGE --def FILE"),
    )


def _one_rank_for_a_gpu(case: Case, resources: RankResources, log: DecisionLog) -> None:
    tasks = resources.tasks_of_a_node
    wanted = gpus.on_a_node(resources)
    if wanted and tasks > 1 and gpus.MIG.search(wanted[0]):
        mig.warn(case, wanted[0], log)
    if not wanted or not 0 < wanted[1] < tasks or resources.gpus_per_task:
        return
    what = f"{tasks} ranks on a node with {wanted[1]} GPUs"
    if dict(case.spec.env).get(mig.ONE_GPU) == "1":
        log.warn(
            "gpu-shared-by-ranks",
            f"{what} share them: NCCL allows it for experiments, from {ONE_GPU_FROM} on",
        )
        return
    unasked = not gpus.settled(case.spec, case.spec.resources)
    log.refuse(
        "gpu-shared",
        f"{what}: NCCL refuses two ranks on one GPU",
        "NCCL: Duplicate GPU detected (ncclInvalidUsage)",
        change(ntasks=resources.nodes * wanted[1])
        if resources.ntasks
        else change(ntasks_per_node=wanted[1]),
        *([gpu_default.on_cpus(case, resources)] if unasked else []),
    )
