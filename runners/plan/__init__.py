"""The solver: (JobSpec, Site, ImageInfo) -> Plan, each choice with its reason, or refusals.

Pure: it looks at nothing but its three inputs.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import BindMount, ImageInfo, JobSpec, Plan, Refusal, Site
from . import cpu, driver, gpu, network, remedies, where, wireup
from .notes import Notes

DATA_TARGET = "/data"


def solve(spec: JobSpec, site: Site, image: ImageInfo) -> Plan:
    """Return the plan; one that cannot work has refusals, with remedies that were tried."""
    made = _attempt(spec, site, image)
    if not made.refusals:
        return made
    found = remedies.find(spec, lambda changed: _attempt(changed, site, image))
    first, *others = made.refusals
    options = (*found, *(text for text in first.remedies if text not in found))
    return replace(made, refusals=(Refusal(first.what, first.evidence, options), *others))


def _attempt(asked: JobSpec, site: Site, image: ImageInfo) -> Plan:
    notes = Notes(warnings=list(site.problems))
    _known(asked, site, image, notes)
    scheduler = where.scheduler(asked, site, notes)
    runtime = where.runtime(asked, site, scheduler, notes)
    where.architecture(scheduler, site, image, notes)
    controller = wireup.controller(asked, site, image, scheduler, notes)
    launcher = where.launcher(asked, scheduler, controller, notes)
    mpi = wireup.choose(asked, site, image, launcher, controller, notes)
    vendor = gpu.choose(asked, site, image, scheduler, notes)
    data = gpu.data_plane(asked.resources, image, controller, vendor, notes)
    spec = cpu.share(asked, site, notes)
    cpu.check(spec.resources, site, notes)
    bind = cpu.bind(spec, site, launcher, notes)
    cpu.threads(spec.resources, notes)
    network.interface(spec, controller, spec.resources.nodes == 1, notes)
    network.variables(site, controller, launcher, runtime, notes)
    brings = _brings_recipe(spec, image, notes)
    return Plan(
        spec=spec,
        scheduler=scheduler,
        runtime=runtime,
        launcher=launcher,
        controller=controller,
        mpi=mpi,
        nv=vendor == "nv",
        rocm=vendor == "rocm",
        brings_recipe=brings,
        binds=_binds(spec),
        image_digest=image.digest,
        decisions=tuple(notes.decisions),
        driver=image.fact(driver.MINIMUM) or None,
        data_plane=data,
        cpu_bind=bind,
        variables=tuple(notes.variables),
        warnings=tuple(notes.warnings),
        refusals=tuple(notes.refusals),
    )


def _known(spec: JobSpec, site: Site, image: ImageInfo, notes: Notes) -> None:
    """Say what the plan starts from; refuse a trainer whose framework is not in the image."""
    if site.profile:
        notes.choose("site", site.profile.name, site.profile.chosen)
    if image.source:
        notes.choose("image", image.digest or image.path.name, f"from {image.source}")
    there = image.listed("horovod.frameworks")
    wanted = spec.trainer.requires
    if wanted and there and wanted not in there:
        notes.refuse(
            f"{spec.trainer.name} needs {wanted}, which {image.path.name} does not have",
            image.how("horovod.frameworks"),
        )


def _brings_recipe(spec: JobSpec, image: ImageInfo, notes: Notes) -> bool:
    if spec.trainer.module is None:
        return False
    if spec.trainer.name in image.listed("recipes"):
        notes.choose("recipe", "from the image", "it names it", image.how("recipes"))
        return False
    notes.choose("recipe", "from this machine", "the image does not have it")
    return True


def _binds(spec: JobSpec) -> tuple[BindMount, ...]:
    binds = list(spec.binds)
    if spec.data:
        binds.append(BindMount(str(spec.data), DATA_TARGET, read_only=True))
    if spec.trainer.file:
        folder = str(spec.trainer.file.parent)
        binds.append(BindMount(folder, folder))
    return tuple(binds)
