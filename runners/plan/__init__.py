"""The solver: (JobSpec, Site, ImageInfo) -> Plan, each choice with its reason, or refusals.

Pure: it looks at nothing but its three inputs.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.model import BindMount, ImageInfo, JobSpec, Plan, Refusal, Site
from ..core.remedy import is_part
from ..schedulers import SCHEDULERS
from ..script import runtimes
from ..script.stage_lines import source
from ..settings.sites import adapt, rules
from . import (
    cpu,
    datasets,
    driver,
    execution,
    gpu,
    horovod,
    host_mpi,
    images,
    network,
    node_disk,
    partition,
    remedies,
    requeue,
    wireup,
)
from .choices import Notes


def solve(spec: JobSpec, site: Site, image: ImageInfo) -> Plan:
    """Return the plan; one that cannot work has refusals, with remedies that were tried."""
    made = _attempt(spec, site, image)
    if not made.refusals:
        return made
    found = remedies.find(spec, lambda changed: _attempt(changed, site, image))
    first, *others = made.refusals
    # What the refusal itself says mends just that; what was found may change more.
    # Advice comes after what can be typed.
    both = dict.fromkeys([*first.remedies, *found])
    ranked = tuple(sorted(both, key=lambda text: not is_part(text)))
    return replace(made, refusals=(Refusal(first.what, first.evidence, ranked), *others))


def _attempt(wanted: JobSpec, site: Site, image: ImageInfo) -> Plan:
    notes = Notes(warnings=list(site.problems))
    _known(wanted, site, image, notes)
    asked = _as_the_site_wants_it(wanted, site, notes)
    scheduler = execution.scheduler(asked, site, notes)
    runtime = execution.runtime(asked, site, scheduler, notes)
    execution.architecture(scheduler, site, image, notes)
    controller = wireup.controller(asked, site, image, scheduler, notes)
    launcher = execution.launcher(asked, scheduler, controller, notes)
    mpi = wireup.choose(asked, site, image, launcher, controller, notes)
    vendor = gpu.choose(asked, site, image, scheduler, notes)
    data = gpu.data_plane(asked.resources, image, controller, vendor, notes)
    spec = cpu.share(asked, site, notes)
    partition.check(spec.resources, site, notes)
    bind = cpu.bind(spec, site, launcher, notes)
    cpu.threads(spec.resources, notes)
    network.interface(spec, controller, spec.resources.nodes == 1, notes)
    horovod.variables(spec, controller, launcher, notes)
    network.variables(spec, site, image, controller, runtime, notes)
    libraries = host_mpi.choose(spec, site, image, launcher, controller, notes)
    staged = datasets.choose(spec, site, scheduler, runtime, notes)
    form = images.choose(spec, site, image, scheduler, runtime, notes)
    interrupted = requeue.choose(spec, site, scheduler, launcher, notes)
    brings = _brings_recipe(spec, image, notes)
    _rules(spec, site, image, notes)
    notes.refusals += SCHEDULERS[scheduler].refusals(spec)
    notes.refusals += runtimes.refusals(spec, runtime)
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
        binds=_binds(spec, staged),
        image_digest=image.digest,
        decisions=tuple(notes.decisions),
        driver=image.fact(driver.MINIMUM) or None,
        data_plane=data,
        cpu_bind=bind,
        variables=tuple(notes.variables),
        warnings=tuple(notes.warnings),
        refusals=tuple(notes.refusals),
        runtime_args=site.profile.runtime_args.get(runtime, ()) if site.profile else (),
        module_use=site.profile.module_use if site.profile else (),
        host_mpi=libraries,
        staged=staged,
        image_form=form,
        image_offset=image.offset,
        stage_root=node_disk.root(site),
        **interrupted,
    )


def _known(spec: JobSpec, site: Site, image: ImageInfo, notes: Notes) -> None:
    """Say what the plan starts from; refuse a trainer whose framework is not in the image."""
    if site.profile:
        notes.choose("site", site.profile.name, site.profile.chosen)
    if image.source:
        notes.choose("image", image.digest or image.path.name, f"from {image.source}")
    if image.fact("horovod.version") == "none":
        notes.warn(f"there is no Horovod in {image.path.name}: ranks will not know each other")
    there = image.listed("horovod.frameworks")
    wanted = spec.trainer.requires
    if wanted and there and wanted not in there:
        notes.refuse(
            f"{spec.trainer.name} needs {wanted}, which {image.path.name} does not have",
            image.how("horovod.frameworks"),
        )


def _as_the_site_wants_it(spec: JobSpec, site: Site, notes: Notes) -> JobSpec:
    if site.profile is None:
        return spec
    adapted, decisions = adapt.adapt(spec, site.profile)
    notes.decisions += decisions
    return adapted


def _rules(spec: JobSpec, site: Site, image: ImageInfo, notes: Notes) -> None:
    if site.profile:
        refusals, warnings = rules.check(
            spec, site.profile, site.cwd, site.environment, image.architecture
        )
        notes.refusals += refusals
        notes.warnings += warnings


def _brings_recipe(spec: JobSpec, image: ImageInfo, notes: Notes) -> bool:
    trainer, there = spec.trainer, image.listed("recipes")
    if trainer.module is None and not trainer.uses_recipes:
        return False
    if trainer.name in there or (trainer.file and there):
        notes.choose("recipe", "from the image", "it names it", image.how("recipes"))
        return False
    notes.choose("recipe", "from this machine", "the image does not have it")
    return True


def _binds(spec: JobSpec, staged: bool) -> tuple[BindMount, ...]:
    binds = list(spec.binds)
    for each in spec.data:
        inner = "/" if each.squashfs else ""
        binds.append(BindMount(source(each, staged), runtimes.data_target(each), True, inner))
    binds += horovod.binds(spec)
    if spec.trainer.file:
        folder = str(spec.trainer.file.parent)
        binds.append(BindMount(folder, folder))
    return tuple(binds)
