"""The solver: Case -> Plan, each decision with its reason and evidence, or refusals.

Pure: it depends on the case alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.model import (
    BY_MODULES,
    BindMount,
    Controller,
    JobSpec,
    RuntimeName,
    SchedulerName,
    Staged,
)
from ..core.plan import ChoiceId, Launching, Plan, Refusal, Staging, Variable
from ..core.remedy import LAUNCH, Remedy, change, command
from ..schedulers import SCHEDULERS
from ..script import runtimes
from ..script.runtimes import limits
from . import (
    cpu,
    execution,
    gpu,
    host_mpi,
    network,
    partition,
    requeue,
    site_rules,
    staging,
    wireup,
)
from .case import Case, DecisionLog

# Folders of an image: with the host's in their place nothing in it would run.
SYSTEM = re.compile(r"/((usr/)?(local/)?(s?bin|lib\w*)(/.*)?|usr(/local)?|etc|opt|var)?")
PACKAGES = {"pytorch": "torch", "tensorflow": "tensorflow"}  # by what a preset requires
IMAGE, HOST = "image", "host"  # where a recipe comes from
# Ranked: what changes least comes first. None lets the solver choose.
CHANGES: tuple[dict[str, Any], ...] = (
    {"mpi": None},
    {"controller": Controller.GLOO},
    {"controller": Controller.GLOO, "mpi": None},
    {"controller": Controller.MPI, "mpi": None},
    {"launcher": None},
    {"launcher": None, "mpi": None},
    {"launcher": None, "controller": Controller.GLOO, "mpi": None},
    {"launcher": None, "controller": Controller.MPI, "mpi": None},
    {"runtime": None},
    {"scheduler": None},
    {"scheduler": SchedulerName.LOCAL},
)
MOST_REMEDIES = 3


def solve(case: Case) -> Plan:
    """Return the plan; one that cannot work has refusals, with remedies that were tried."""
    plan = _attempt(case)
    if not plan.refusals:
        return plan
    tried = _remedies(case)
    first, *others = plan.refusals
    # The refusal's own remedies fix just that; those found by trying may change more.
    # Advice comes after what can be typed.
    left_out = {name for remedy in first.remedies for name in remedy.leave_out}
    tried = tuple(each for each in tried if not {name for name, _ in each.options} <= left_out)
    both = dict.fromkeys([*first.remedies, *tried])
    ranked = tuple(sorted(both, key=lambda remedy: remedy.kind != LAUNCH))
    return replace(plan, refusals=(Refusal(first.what, first.evidence, ranked), *others))


def _remedies(case: Case) -> tuple[Remedy, ...]:
    """Return the changes that make the job work, each on its own, the best first.

    Found by solving again: never a guess.
    """
    remedies: list[Remedy] = []
    spec = case.spec
    for changes in CHANGES:
        if all(getattr(spec, name) == value for name, value in changes.items()):
            continue
        if "runtime" in changes and spec.runtime is RuntimeName.NONE:
            continue  # an environment's folder is no image
        solved = _attempt(case.asking(**changes))
        remedy = change(_options(spec, solved, changes))
        if not solved.refusals and remedy.options and remedy not in remedies:
            remedies.append(remedy)
    # Leave out what another remedy already does with fewer options.
    options = [set(remedy.options) for remedy in remedies]
    shortest = [each for each in remedies if not any(set(each.options) > one for one in options)]
    return tuple(shortest[:MOST_REMEDIES])


def _options(spec: JobSpec, solved: Plan, changes: Iterable[str]) -> dict[str, str]:
    """Return the settings, of those of `changes`, that were decided otherwise than asked."""
    launching, wireup = solved.launching, solved.wireup
    decided = {
        "scheduler": launching.scheduler,
        "runtime": launching.runtime,
        "launcher": launching.launcher,
        "controller": wireup.controller.value,
        "mpi": wireup.mpi,
    }
    return {
        name: str(decided[name])
        for name in changes
        if decided[name] is not None and decided[name] != getattr(spec, name)
    }


def _attempt(case: Case) -> Plan:
    """Take all decisions, each from those before it; the log has the reasons."""
    log = DecisionLog()
    _known(case, log)
    spec, profile = case.spec, case.site.profile
    if profile:
        case = case.asking(resources=site_rules.in_sites_gpu_form(case, profile, log))
    scheduler = execution.scheduler(case, log)
    case = case.asking(resources=execution.ranks(case, scheduler, log))
    runtime = execution.runtime(case, scheduler, log)
    execution.architecture(case, scheduler, log)
    execution.contained(case, runtime, log)
    controller = wireup.controller(case, scheduler, log)
    launching = execution.launcher(case, scheduler, runtime, controller, log)
    wired = wireup.choose(case, launching, controller, log)
    modules = host_mpi.modules(case, runtime, log)
    gpus = gpu.choose(case, scheduler, controller, log)
    case = case.asking(resources=cpu.share(case, scheduler, log))
    partition.check(case, log)
    cpus = cpu.choose(case, launching, controller, log)
    connected = network.choose(case, controller, log)
    variables = (
        *cpu.variables(case.resources),
        *network.variables(case, launching, controller, log),
    )
    libraries = host_mpi.choose(case, launching.launcher, controller, log)
    staged = staging.choose(case, launching, log)
    interruption = requeue.choose(case, launching, staged, log)
    variables += requeue.variables(interruption)
    _kept(variables, case.site.environment, log)
    wireup.gate(case, launching, controller, log)
    execution.log_files(case, scheduler, log)
    execution.profiled(case, launching, modules, log)
    brings_recipe = _brings_recipe(case, log)
    _refused_by_others(case, launching, log)
    _dependency(case, log)
    return Plan(
        spec=spec,
        resources=case.resources,
        launching=launching,
        wireup=wired,
        gpus=gpus,
        cpus=cpus,
        network=connected,
        staging=staged,
        interruption=interruption,
        brings_recipe=brings_recipe,
        binds=_binds(case, staged),
        variables=variables,
        runtime_args=profile.runtime_args.get(runtime, ()) if profile else (),
        modules=modules,
        host_mpi=libraries,
        ssh=wireup.reaches_nodes_by_ssh(case, launching),
        remote_site=case.site.remote_site,
        choices=tuple(log.choices),
        warnings=tuple(log.warnings),
        refusals=tuple(log.refusals),
    )


def _known(case: Case, log: DecisionLog) -> None:
    """Say what the plan starts from; refuse a trainer whose framework is not in the image."""
    site, image = case.site, case.image
    for problem in site.problems:
        log.warn(problem)
    if site.profile and site.remote_site:
        what = f"planned for {site.profile.name} from its profile alone"
        log.warn(f"{what}; paths of image and folders are those of this machine")
    if site.profile:
        log.choose(ChoiceId.SITE, site.profile.name, site.profile.chosen)
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


def _kept(variables: Iterable[Variable], environment: Mapping[str, str], log: DecisionLog) -> None:
    """Warn of the user's own variables, which win over those of the plan that are not forced."""
    for name in dict.fromkeys(each.name for each in variables if not each.forced):
        if name in environment:
            log.warn(f"your {name}={environment[name]} is kept")


def _framework(case: Case, log: DecisionLog) -> None:
    """Refuse a trainer whose framework is not in the image, or not known to its Horovod."""
    image, wanted = case.image, case.spec.trainer.requires
    if not wanted:
        return
    frameworks, package = image.listed("horovod.frameworks"), PACKAGES[wanted]
    what = f"{case.spec.trainer.name} needs {wanted}, which {image.path.name} does not have"
    if image.fact(f"{package}.version") == "none":
        install = command(f"{image.path}/bin/python", "-m", "pip", "install", package)
        own = case.spec.runtime is RuntimeName.NONE and image.brought_by != BY_MODULES
        remedy = [install] if own else []
        log.refuse(what, image.how(f"{package}.version"), *remedy)
    elif frameworks and wanted not in frameworks:
        log.refuse(what, image.how("horovod.frameworks"))


def _refused_by_others(case: Case, launching: Launching, log: DecisionLog) -> None:
    """Note what the site, the scheduler and the runtime refuse."""
    if case.site.profile:
        site_rules.check(case, case.site.profile, log)
    if not case.site.remote_site:
        staging.own_folders(case, launching, log)
    log.refusals += SCHEDULERS[launching.scheduler].refusals(case.spec)
    log.refusals += limits.refusals(case.spec, launching.runtime)


def _brings_recipe(case: Case, log: DecisionLog) -> bool:
    """Whether the packaged trainer comes from this machine, as the image does not have it."""
    trainer, recipes = case.spec.trainer, case.image.listed("recipes")
    if trainer.module is None and not trainer.uses_recipes:
        return False
    if trainer.name in recipes or (trainer.file and recipes):
        log.choose(ChoiceId.RECIPE, IMAGE, "the image contains it", case.image.how("recipes"))
        return False
    log.choose(ChoiceId.RECIPE, HOST, "the image does not have it")
    return True


def _dependency(case: Case, log: DecisionLog) -> None:
    dependency = case.resources.dependency
    if dependency or ChoiceId.DEPENDENCY in case.reasons:
        log.choose(ChoiceId.DEPENDENCY, dependency or "none", case.why(ChoiceId.DEPENDENCY))


def _binds(case: Case, staged: Staging) -> tuple[BindMount, ...]:
    spec = case.spec
    binds = list(spec.binds)
    for each in spec.data:
        inner = "/" if each.squashfs else ""
        source = Staged(each.entry) if staged.copies_data else str(each.path)
        binds.append(BindMount(source, runtimes.data_target(each), True, inner))
    binds += network.timeline_binds(spec)
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
