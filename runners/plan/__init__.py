"""The solver: Case -> Plan, each choice with its reason and evidence, or refusals.

Pure: it looks at nothing but the case.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.model import BindMount, Plan, Refusal
from ..core.remedy import LAUNCH, command
from ..schedulers import SCHEDULERS
from ..script import runtimes
from ..script.stage_lines import source
from . import (
    cpu,
    execution,
    gpu,
    host_environment,
    host_mpi,
    network,
    own_folders,
    partition,
    remedies,
    requeue,
    site_form,
    site_rules,
    staging,
    wireup,
    worlds,
)
from .case import Case, Log

PACKAGES = {"pytorch": "torch", "tensorflow": "tensorflow"}  # by what a preset requires
IMAGE, HOST = "image", "host"  # where a recipe comes from


def solve(case: Case) -> Plan:
    """Return the plan; one that cannot work has refusals, with remedies that were tried."""
    made = _attempt(case)
    if not made.refusals:
        return made
    found = remedies.find(case, _attempt)
    first, *others = made.refusals
    # What the refusal itself says mends just that; what was found may change more.
    # Advice comes after what can be typed.
    both = dict.fromkeys([*first.remedies, *found])
    ranked = tuple(sorted(both, key=lambda remedy: remedy.kind != LAUNCH))
    return replace(made, refusals=(Refusal(first.what, first.evidence, ranked), *others))


def _attempt(case: Case) -> Plan:
    log = Log()
    _known(case, log)
    case = _as_the_site_wants_it(case, log)
    case = host_environment.choose(_where(case, log), log)
    gpu.choose(case, log)
    case = cpu.share(case, log)
    partition.check(case, log)
    cpu.bind(case, log)
    cpu.threads(case, log)
    network.interface(case, log)
    network.horovod_variables(case, log)
    network.variables(case, log)
    host_mpi.choose(case, log)
    staging.data(case, log)
    staging.image(case, log)
    requeue.choose(case, log)
    worlds.choose(case, log)
    _brings_recipe(case, log)
    _refused_elsewhere(case, log)
    log.choices += case.policy
    _dependency(case, log)
    return _plan(case, log)


def _where(case: Case, log: Log) -> Case:
    """Choose who queues the job, what runs the image, and how the ranks become one world."""
    case = execution.scheduler(case, log)
    execution.runtime(case, log)
    execution.architecture(case, log)
    wireup.controller(case, log)
    execution.launcher(case, log)
    wireup.choose(case, log)
    return case


def _plan(case: Case, log: Log) -> Plan:
    chosen, site, image = log.chosen, case.site, case.image
    runtime, profile = chosen("runtime"), site.profile
    staged = chosen("stage-data") == staging.SENT
    return Plan(
        spec=case.spec,
        scheduler=chosen("scheduler"),
        runtime=runtime,
        launcher=chosen("launcher"),
        controller=chosen("controller"),
        mpi=chosen("mpi") or None,
        nv=log.says("nv"),
        rocm=log.says("rocm"),
        brings_recipe=chosen("recipe") == HOST,
        binds=_binds(case, staged),
        image_digest=image.digest,
        verified_digest=case.verified_digest,
        choices=tuple(log.choices),
        driver=image.fact(gpu.MINIMUM) or None,
        cpu_bind=chosen("cpu-bind") or None,
        variables=tuple(log.variables),
        warnings=tuple(log.warnings),
        refusals=tuple(log.refusals),
        runtime_args=profile.runtime_args.get(runtime, ()) if profile else (),
        module_use=profile.module_use if profile else (),
        host_mpi=host_mpi.libraries(case),
        staged=staged,
        image_form=staging.FORMS[chosen("stage-image")],
        image_offset=image.offset,
        stage_root=staging.root(site),
        ssh=log.says("ssh"),
        elsewhere=site.elsewhere,
        **requeue.fields(case, log),
    )


def _known(case: Case, log: Log) -> None:
    """Say what the plan starts from; refuse a trainer whose framework is not in the image."""
    site, image = case.site, case.image
    for problem in site.problems:
        log.warn(problem)
    if site.profile and site.elsewhere:
        what = f"shown for {site.profile.name} by its profile alone"
        log.warn(f"{what}; image and folders are named as on this machine")
    if site.profile:
        log.choose("site", site.profile.name, site.profile.chosen)
    if image.source:
        log.choose("image", image.digest or image.path.name, f"from {image.source}")
    _framework(case, log)


def _framework(case: Case, log: Log) -> None:
    """Refuse a trainer whose framework is not in the image, or not known to its Horovod."""
    image, wanted = case.image, case.spec.trainer.requires
    if not wanted:
        return
    there, package = image.listed("horovod.frameworks"), PACKAGES[wanted]
    what = f"{case.spec.trainer.name} needs {wanted}, which {image.path.name} does not have"
    if image.fact(f"{package}.version") == "none":
        install = command(f"{image.path}/bin/python", "-m", "pip", "install", package)
        remedy = [install] if case.spec.runtime == "none" else []
        log.refuse(what, image.how(f"{package}.version"), *remedy)
    elif there and wanted not in there:
        log.refuse(what, image.how("horovod.frameworks"))


def _as_the_site_wants_it(case: Case, log: Log) -> Case:
    if case.site.profile is None:
        return case
    adapted, choices = site_form.adapt(case.spec, case.site.profile)
    log.choices += choices
    return replace(case, spec=adapted)


def _refused_elsewhere(case: Case, log: Log) -> None:
    """Note what the site, the scheduler and the runtime refuse."""
    if case.site.profile:
        refusals, warnings = site_rules.check(case, case.site.profile)
        log.refusals += refusals
        for text in warnings:
            log.warn(text)
    if not case.site.elsewhere:
        own_folders.check(case, log)
    log.refusals += SCHEDULERS[log.chosen("scheduler")].refusals(case.spec)
    log.refusals += runtimes.refusals(case.spec, log.chosen("runtime"))


def _brings_recipe(case: Case, log: Log) -> None:
    trainer, there = case.spec.trainer, case.image.listed("recipes")
    if trainer.module is None and not trainer.uses_recipes:
        return
    if trainer.name in there or (trainer.file and there):
        log.choose("recipe", IMAGE, "it names it", case.image.how("recipes"))
    else:
        log.choose("recipe", HOST, "the image does not have it")


def _dependency(case: Case, log: Log) -> None:
    asked = case.resources.dependency
    if asked or "dependency" in case.reasons:
        log.choose("dependency", asked or "none", case.why("dependency"))


def _binds(case: Case, staged: bool) -> tuple[BindMount, ...]:
    spec = case.spec
    binds = list(spec.binds)
    for each in spec.data:
        inner = "/" if each.squashfs else ""
        binds.append(BindMount(source(each, staged), runtimes.data_target(each), True, inner))
    binds += network.timeline_binds(spec)
    if spec.trainer.file:
        folder = str(spec.trainer.file.parent)
        binds.append(BindMount(folder, folder))
    return tuple(binds)
