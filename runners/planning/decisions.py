"""The decisions of a plan, each from those before it, with reasons and refusals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .. import runtimes
from ..core.model import BY_MODULES, BindMount, JobSpec, RuntimeName, Staged
from ..core.plan import (
    ChoiceId,
    Plan,
    Provider,
    Staging,
    Variable,
)
from ..core.remedy import command, shell_line
from ..runtimes import limits
from ..schedulers import SCHEDULERS
from . import (
    cpu,
    execution,
    gloo_network,
    gpu,
    gpu_default,
    host_mpi,
    partition,
    process_group,
    requeue,
    site_rules,
    staging,
    wireup,
)
from .case import Case, DecisionLog, Start

# Folders of an image: with the host's in their place nothing in it would run.
SYSTEM = re.compile(r"/((usr/)?(local/)?(s?bin|lib\w*)(/.*)?|usr(/local)?|etc|opt|var)?")


def decide(case: Case) -> Plan:
    """Take all decisions, each from those before it; the log has the reasons."""
    log = DecisionLog()
    _known(case, log)
    return _plan(case, _start(case, log), log)


def _start(case: Case, log: DecisionLog) -> Start:
    """Choose who queues the job, where its ranks are, what runs and starts them."""
    requested, profile = case.spec.resources, case.site.profile
    if profile:
        requested = site_rules.in_sites_gpu_form(requested, profile, log)
    scheduler = execution.scheduler(case, log)
    requested = gpu_default.choose(case, requested, scheduler, log)
    ranks = execution.ranks(case, requested, scheduler, log)
    runtime = execution.runtime(case, scheduler, log)
    execution.architecture(case, scheduler, log)
    log.warnings += limits.contained(case.spec, ranks.tasks_of_a_node, runtime)
    controller = wireup.controller(case, ranks, scheduler, log)
    launching = execution.launcher(case, scheduler, runtime, controller, log)
    wired = wireup.choose(case, ranks, launching, controller, log)
    modules = host_mpi.modules(case, runtime, log)
    gpus = gpu.choose(case, ranks, scheduler, controller, log)
    resources = cpu.share(case, ranks, scheduler, log)
    return Start(resources, launching, wired, modules, gpus)


def _plan(case: Case, start: Start, log: DecisionLog) -> Plan:
    """Decide what follows from how the ranks start, and check the whole."""
    spec, site, resources, launching = case.spec, case.site, start.resources, start.launching
    partition.check(site, resources, log)
    cpus = cpu.choose(case, start, log)
    connected = gloo_network.choose(case, start, log)
    variables = (*cpu.variables(resources), *gloo_network.variables(case, start, log))
    libraries = host_mpi.choose(case, start, log)
    staged = staging.choose(case, start, log)
    interruption = requeue.choose(case, launching, staged, log)
    variables += requeue.variables(interruption)
    _kept(variables, site.environment, log)
    process_group.gate(case, start, log)
    execution.log_files(case, launching.scheduler, log)
    execution.profiled(case, start, log)
    brings_recipe = _brings_recipe(case, log)
    _refused_by_others(case, start, log)
    _dependency(case, log)
    return Plan(
        spec=spec,
        resources=resources,
        launching=launching,
        wireup=start.wireup,
        gpus=start.gpus,
        cpus=cpus,
        network=connected,
        staging=staged,
        interruption=interruption,
        brings_recipe=brings_recipe,
        binds=_binds(spec, staged),
        variables=variables,
        runtime_args=site.profile.runtime_args.get(launching.runtime, ()) if site.profile else (),
        modules=start.modules,
        host_mpi=libraries,
        ssh=wireup.reaches_nodes_by_ssh(resources, launching),
        remote_site=site.remote_site,
        choices=tuple(log.choices),
        warnings=tuple(log.warnings),
        refusals=tuple(log.refusals),
    )


def _known(case: Case, log: DecisionLog) -> None:
    """Record what the plan starts from; refuse a trainer whose framework is not in the image."""
    site, image = case.site, case.image
    for problem in site.problems:
        log.warn("machine-answers", problem)
    if site.profile and site.remote_site:
        what = f"this machine does not belong to {site.profile.name}: only its profile was read"
        log.warn(
            "other-site", f"{what}, and the paths of the image and of folders are this machine's"
        )
    if site.profile:
        log.choose(ChoiceId.SITE, site.profile.name, site.profile.chosen)
    if image.unbuilt:
        what = (
            f"{image.path.name} does not exist yet: the plan is made from its definition and lock"
        )
        log.warn("image-not-built", what, shell_line(image.unbuilt))
    if image.source:
        log.choose(ChoiceId.IMAGE, image.digest or image.path.name, f"from {image.source}")
    elif image.brought_by:
        modules = [f"--module {name}" for name in case.spec.modules]
        what = " ".join(modules) if image.brought_by == BY_MODULES else "the active environment"
        evidence = "" if image.brought_by == BY_MODULES else f"{image.brought_by}={image.path}"
        log.choose(
            ChoiceId.IMAGE, str(image.path), f"no image was given: the Python of {what}", evidence
        )
    _framework(case, log)
    _imports(case, log)


def _kept(variables: Iterable[Variable], environment: Mapping[str, str], log: DecisionLog) -> None:
    """Warn of the user's own variables, which win over those of the plan that are not forced."""
    for name in dict.fromkeys(variable.name for variable in variables if not variable.forced):
        if name in environment:
            log.warn("variable-kept", f"your {name}={environment[name]} is kept")


def _framework(case: Case, log: DecisionLog) -> None:
    """Refuse a trainer whose framework is not in the image, or not known to its Horovod."""
    image, wanted = case.image, case.spec.trainer.requires
    if not wanted:
        return
    frameworks, package = image.listed("horovod.frameworks"), wanted.package
    what = f"{case.spec.trainer.name} needs {wanted}, which {image.path.name} does not have"
    if image.fact(f"{package}.version") == "none":
        install = command(f"{image.path}/bin/python", "-m", "pip", "install", package)
        installable = case.spec.runtime is RuntimeName.NONE and image.brought_by != BY_MODULES
        remedy = [install] if installable else []
        log.refuse("framework-missing", what, image.how(f"{package}.version"), *remedy)
    elif frameworks and wanted not in frameworks:
        log.refuse("framework-unsupported", what, image.how("horovod.frameworks"))


def _imports(case: Case, log: DecisionLog) -> None:
    """Refuse a script that imports what its environment does not have; a variable may bring it."""
    spec, image = case.spec, case.image
    elsewhere = spec.modules or any(name == "PYTHONPATH" for name, _ in spec.env)
    if spec.runtime is not RuntimeName.NONE or elsewhere:
        return
    for package in spec.trainer.imports:
        if image.fact(f"{package}.version") == "none":
            what = f"{spec.trainer.typed} imports {package}, which {image.path} does not have"
            install = command(f"{image.path}/bin/python", "-m", "pip", "install", package)
            log.refuse("package-missing", what, image.how(f"{package}.version"), install)


def _refused_by_others(case: Case, start: Start, log: DecisionLog) -> None:
    """Record what the site, the scheduler and the runtime refuse of what they are asked for."""
    spec, site, resources, launching = case.spec, case.site, start.resources, start.launching
    if site.profile:
        site_rules.check(spec, resources, site, site.profile, log)
    if not site.remote_site:
        staging.own_folders(case, start, log)
    log.refusals += SCHEDULERS[launching.scheduler].refusals(spec, resources)
    log.refusals += limits.refusals(spec, launching.runtime)


def _brings_recipe(case: Case, log: DecisionLog) -> bool:
    """Whether the packaged trainer comes from this machine, as the image does not have it."""
    trainer, recipes = case.spec.trainer, case.image.listed("recipes")
    if trainer.module is None and not trainer.uses_recipes:
        return False
    if trainer.name in recipes or (trainer.file and recipes):
        log.choose(
            ChoiceId.RECIPE, Provider.IMAGE, "the image contains it", case.image.how("recipes")
        )
        return False
    log.choose(ChoiceId.RECIPE, Provider.HOST, "the image does not have it")
    return True


def _dependency(case: Case, log: DecisionLog) -> None:
    dependency = case.spec.resources.dependency
    if dependency or ChoiceId.DEPENDENCY in case.reasons:
        log.choose(ChoiceId.DEPENDENCY, dependency or "none", case.why(ChoiceId.DEPENDENCY))


def _binds(spec: JobSpec, staged: Staging) -> tuple[BindMount, ...]:
    binds = list(spec.binds)
    for dataset in spec.data:
        inner = "/" if dataset.squashfs else ""
        source = Staged(dataset.entry) if staged.copies_data else str(dataset.path)
        binds.append(BindMount(source, runtimes.data_target(dataset), True, inner))
    binds += gloo_network.timeline_binds(spec)
    for folder in spec.profiling.folders if spec.profiling else ():
        if not SYSTEM.fullmatch(folder):
            binds.append(BindMount(folder, folder, read_only=True))
    if spec.trainer.file:
        binds += _of_trainer(spec.trainer.file)
    return tuple(binds)


def _of_trainer(file: Path) -> Iterator[BindMount]:
    """Yield the mount of a trainer's folder; of a script in a system folder that of it alone."""
    if not SYSTEM.fullmatch(str(file.parent)):
        yield BindMount(str(file.parent), str(file.parent))
    elif file.suffix == ".py":
        yield BindMount(str(file), str(file))
