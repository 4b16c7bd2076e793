"""GPUs that nobody asked for: a job with an image for GPUs requests those that its nodes have.

What was typed or configured about GPUs settles them; the plan says what it requests, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core import gpus
from ..core.model import GpuVendor, ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from ..core.plan import ChoiceId
from ..core.remedy import Remedy, change
from ..core.site import Profile
from ..core.text import count
from ..schedulers import capabilities
from ..settings import gpu_request
from . import gpu_nodes, mig, site_limits, site_rules
from .case import Case, DecisionLog
from .gpu_nodes import GpuNodes


def of_image(image: ImageInfo) -> GpuVendor | None:
    """Return whose GPUs an image is for; None for CPUs, and where nothing is known of it."""
    if image.fact("rocm.version") not in ("", "none"):
        return GpuVendor.AMD
    return GpuVendor.NVIDIA if image.fact("cuda.version") not in ("", "none") else None


def vendor(spec: JobSpec, resources: Resources) -> GpuVendor | None:
    """Return whose GPUs the job gets by default; None where it gets none, or they are settled."""
    if spec.trainer.is_alone or gpus.settled(spec, resources):
        return None
    return of_image(spec.image)


def choose(
    case: Case, resources: Resources, scheduler: SchedulerName, log: DecisionLog
) -> Resources:
    """Return the request with GPUs, where the image is for them and nobody said anything of them.

    Refuses nodes without GPUs where others have some.
    """
    whose = vendor(case.spec, resources)
    if whose is None:
        return resources
    nodes = gpu_nodes.of_job(case.site, resources, scheduler, whose)
    if nodes and nodes.with_gpus:
        return _Request(case, resources, scheduler, nodes).made(log)
    others = list(gpu_nodes.others(case.site, resources, scheduler, whose)) if nodes else []
    without = f"{case.image.path.name} is for GPUs, and {nodes.have if nodes else 'it has'} none"
    if nodes and others and case.spec.runtime is not RuntimeName.NONE:
        log.refuse(
            "gpu-image-without-gpus", without, nodes.evidence, *others, on_cpus(case, resources)
        )
    elif others:  # what pip installs for PyTorch is for GPUs and CPUs alike
        log.warn(
            "gpu-image-on-cpus",
            f"{without}: the job runs on CPUs",
            *others,
            on_cpus(case, resources),
        )
    elif case.spec.runtime is not RuntimeName.NONE and not (case.spec.nv or case.spec.rocm):
        _warn(case, resources, scheduler, nodes, log)
    return resources


def on_cpus(case: Case, resources: Resources) -> Remedy:
    """Return the change by which a job with GPUs, typed or by default, gets none."""
    spec = case.spec
    switches = [name for name, given in (("nv", spec.nv), ("rocm", spec.rocm)) if given]
    used = [*gpus.settings_used(resources), *switches]
    if of_image(case.image) is None and used and not case.unasked & set(used):
        return change(leave_out=used)
    return change(gpus_per_node="0", leave_out=[name for name in used if name != "gpus-per-node"])


@dataclass(frozen=True)
class _Request:
    """What is asked of the scheduler, on nodes that have GPUs."""

    case: Case
    resources: Resources
    scheduler: SchedulerName
    nodes: GpuNodes

    def made(self, log: DecisionLog) -> Resources:
        """Return the request with GPUs; refuse it where the site wants a type, of several."""
        profile, least = self.case.site.profile, self.nodes.least_of_each_type
        typed = bool(profile and profile.rules.gpu_type)
        if profile and typed and len(least) > 1:
            self._refuse(least, profile, log)
            return self.resources
        offered = min(least.values())
        number, why_fewer = self._number(offered)
        one_type = (self._are_instances or self.nodes.instances_beside) and len(least) == 1
        named = typed or one_type
        request = gpus.request(next(iter(least)) if named else "", number)
        reason = f"{self.case.image.path.name} is for GPUs and {self.nodes.have} "
        reason += " to ".join(map(str, sorted({offered, max(self.nodes.numbers)})))
        log.choose(ChoiceId.GPUS_PER_NODE, request, reason + why_fewer, self.nodes.evidence)
        return self._with(request, profile, log)

    def _with(self, request: str, profile: Profile | None, log: DecisionLog) -> Resources:
        """Return the request, with ranks, a constraint, and in the site's form of GPU requests."""
        spec, constraint = self.case.spec, self.nodes.constraint
        new: Resources = replace(self.resources, gpus_per_node=request)
        if constraint:
            log.choose(ChoiceId.CONSTRAINT, constraint, "the nodes without GPUs do not have it")
            new = replace(new, constraint=constraint)
        new = gpu_request.with_ranks(new, spec.settings, bool(spec.trainer.command))
        return site_rules.in_sites_gpu_form(new, profile, log) if profile else new

    def _refuse(self, least: Mapping[str, int], profile: Profile, log: DecisionLog) -> None:
        forms = [gpus.request(kind, self._number(most)[0]) for kind, most in least.items()]
        what = f"{self.case.image.path.name} is for GPUs, and {profile.name} requires their type"
        evidence = site_limits.because(profile, "rules.gpu_type")
        log.refuse(
            "site-gpu-type-required",
            what,
            evidence,
            *(site_limits.request(profile, form) for form in forms),
        )

    def _number(self, offered: int) -> tuple[int, str]:
        """Return how many GPUs of a node the job gets, and why not all, as the reason goes on."""
        has_ranks = bool(self.case.spec.trainer.command)
        cpus = self._cpus_of_job() or offered
        tasks = self._tasks_of_a_node()
        if has_ranks and tasks:
            number, why = min(tasks, offered), "one for each rank"
        elif not has_ranks or not self._takes_whole_nodes():
            number, why = 1, f"--gpus-per-node {offered} for all of a node"
        elif self._are_instances and not mig.nccl_takes_instances(self.case.image):
            number, why = 1, f"NCCL before {mig.SINCE} uses one MIG instance of a GPU"
        else:
            number, why = min(offered, cpus), f"the job has {count(cpus, 'CPU')} for ranks"
        return number, f"; {why}" if number < offered else ""

    @property
    def _are_instances(self) -> bool:
        return any(map(gpus.MIG.search, self.nodes.least_of_each_type))

    def _cpus_of_job(self) -> int:
        """Return the CPUs that the surrounding job has on each node, 0 where they set no bound."""
        resources, bound = self.resources, capabilities(self.scheduler).within_job
        free = not bound or resources.overcommit
        return 0 if free else self.case.site.allocated_cpus // (resources.cpus_per_task or 1)

    def _tasks_of_a_node(self) -> int:
        """Return the ranks of a node that were asked for, of the surrounding job too; 0 for any."""
        site, resources = self.case.site, self.resources
        if resources.ntasks or resources.ntasks_per_node:
            return resources.tasks_of_a_node
        return site.allocated_tasks if capabilities(self.scheduler).within_job else 0

    def _takes_whole_nodes(self) -> bool:
        """Whether the job takes all GPUs of its nodes: it asks for nodes, or can use any number.

        The GPUs of the surrounding job, and those that a variable names, are the job's own already.
        """
        case, here = self.case, capabilities(self.scheduler)
        if self.resources.nodes > 1 or case.one_of_many:
            return self.resources.nodes > 1
        variables = (name for names in gpu_nodes.VISIBLE.values() for name in names)
        named = here.one_machine and any(name in case.site.environment for name in variables)
        asked = not case.is_unasked(ChoiceId.NODES)
        return asked or case.spec.trainer.module is not None or here.within_job or named


def _warn(
    case: Case,
    resources: Resources,
    scheduler: SchedulerName,
    nodes: GpuNodes | None,
    log: DecisionLog,
) -> None:
    """Warn of a job on CPUs with an image for GPUs, where nobody lists any."""
    here, name = capabilities(scheduler), case.image.path.name
    options = [on_cpus(case, resources)]
    if nodes is None:
        what = f"{name} is for GPUs, and what GPUs the nodes have is not known"
        options.insert(0, change(gpus_per_node="1"))
    elif not here.queue:
        what = f"{name} is for GPUs, and {nodes.have} none"
    else:  # some sites give GPUs without counting them
        what = f"{name} is for GPUs, and {here.title} lists none"
        amd = of_image(case.image) is GpuVendor.AMD
        options.insert(0, change(rocm=True) if amd else change(nv=True))
    log.warn("gpu-image-on-cpus", f"{what}: the job runs on CPUs", *options)
