"""A job and a Slurm site with three partitions, to plan with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runners.core.model import ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.plan import Plan
from runners.core.site import Partition, Site
from runners.core.trainer import Trainer
from runners.planning import solver
from runners.planning.case import Case

from ..plans import planned

SPEC = JobSpec(
    "job", ImageInfo(Path("/i/a.sif")), Trainer("t", None, Path("/t.py")), Resources(), Path("/r")
)
IMAGE = ImageInfo(
    Path("/i/a.sif"),
    {"horovod.controllers": "gloo", "horovod.operations": "nccl,gloo"},
)
SITE = Site(
    (SchedulerName.SLURM,),
    ("none", "pmix"),
    RuntimeName.APPTAINER,
    task_plugin="affinity,cgroup",
    partitions=(
        Partition("cpu", nodes=10, cpus=32, time_limit="1-00:00:00", default=True),
        Partition("a100", nodes=4, cpus=64, gpus=(("A100", 8),)),
        Partition("mixed", nodes=4, cpus=32, gpus=(("T4", 8), ("V100", 2))),
    ),
)


def solved(resources: Resources, site: Site = SITE, image: ImageInfo = IMAGE) -> Plan:
    return planned(SPEC, site, resources=resources, image=image)


def values(made: Plan) -> dict[str, str | float]:
    return {choice.id: choice.value for choice in made.choices}


INSIDE = replace(SITE, allocation="12", allocated_nodes=2, allocated_cpus=4)


def inside(
    resources: Resources, unasked: frozenset[str] = frozenset(), cpus: int = 4, tasks: int = 0
) -> Plan:
    spec = replace(SPEC, scheduler=SchedulerName.ALLOCATION, resources=resources)
    site = replace(INSIDE, allocated_cpus=cpus, allocated_tasks=tasks)
    return solver.solve(Case(replace(spec, image=IMAGE), site, unasked=unasked))
