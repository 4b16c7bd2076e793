"""From settings to a plan: gathers what is known of the request, the site and the image; solves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core import gpus
from ..core.disk_space import mount_type
from ..core.errors import NotFound, Problems
from ..core.model import (
    DataAccess,
    Dataset,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import Remedy, change
from ..core.site import Profile, Site
from ..core.trainer import Trainer
from ..images import container_runtime, recorded_digest
from ..planning import execution, gpu_default, solver, staging
from ..planning.case import Case
from ..runtimes.limits import FILES
from ..schedulers import capabilities, slurm_queries
from ..settings import config, request, trainers
from ..sites import find, probe
from . import at_once, default_trainer, named_image
from .named_image import NamedImage


def plan(
    trainer: str,
    args: Sequence[str],
    flags: Mapping[str, Any],
    dry_run: bool,
    listener: Listener,
    one_of_many: bool = False,
) -> Plan:
    """Return the plan for what the flags, files and environment ask; see `plan_for`.

    Without a trainer it is the one of `default_trainer`.
    """
    problems = Problems()
    here = problems.of(probe_site, flags, None) or probe_site({**flags, "site": find.NONE}, None)
    name, words = trainer, tuple(args)
    if not name:
        name = default_trainer.of(_image_alone(flags, here, dry_run, listener))
        listener.tell(f"no trainer given: {name}, {default_trainer.ABOUT}")
    unknown = Trainer(name, None, None, words, program=name, typed=name), None
    resolved, preset = problems.of(trainers.find, name, words, one_of_many, instead=unknown)
    made = plan_for(resolved, preset, flags, here, dry_run, listener, problems, one_of_many)
    return made if trainer else default_trainer.fitted(made)


def plan_for(
    trainer: Trainer,
    preset: config.ConfigLayer | None,
    flags: Mapping[str, Any],
    here: Site,
    dry_run: bool,
    listener: Listener,
    problems: Problems | None = None,
    one_of_many: bool = False,
) -> Plan:
    """Return the plan for a trainer that was found, with its preset, on a site that was asked.

    It may be for `one_of_many` runs, of an array or a sweep. One that cannot work has refusals.
    Raises an error with all `problems`, and the plan's refusals, where there is one: a site that is
    not here, an image, a partition or a dataset that does not exist. A dry run may be of another
    site; it neither pulls the image nor reads it whole, and one of ours that is not built yet is
    planned with the labels that it will have.
    """
    problems = problems or Problems()
    if not dry_run:
        problems.of(only_here, here, change(dry_run=True))
    settings = config.load(flags, os.environ, preset, here.profile)
    resources = request.resources(settings, trainer.has_ranks, problems)
    named = named_image.find(settings, resources, here, dry_run, listener, problems)
    image, runtime = named.image, named.runtime
    data = problems.of(_data, settings, here.profile, instead=())
    spec = request.job_spec(settings, resources, image, trainer, data, problems)
    if named.by_nobody:
        spec = replace(spec, runtime=RuntimeName.NONE)
    spec = _with_partition(spec, here, problems)
    if dry_run or problems.found:
        recorded = recorded_digest.without_reading(image.path)
    else:
        recorded = recorded_digest.check(image.path, listener.progress)
    files = [spec.runs_dir, image.path, spec.trainer.file, *(each.path for each in spec.data)]
    here = _with_gpus(spec, _mounts(spec, here, runtime))
    case = Case(
        spec,
        _with_apptainer(spec, _with_host_mpi(spec, here), runtime),
        _reasons(settings, named),
        settings.unasked,
        {} if here.remote_site else {path: mount_type(path) for path in filter(None, files)},
        one_of_many,
    )
    case = problems.of(_waiting, case, instead=case) if spec.resources.dependency else case
    plan = solver.solve(case)
    if problems.found:
        raise at_once.error(problems.found, plan)
    return replace(plan, verified_digest=recorded.digest, verified_stamp=recorded.stamp)


def _image_alone(
    flags: Mapping[str, Any], here: Site, dry_run: bool, listener: Listener
) -> ImageInfo:
    """Return the image before there is a trainer; what is wrong with it is told with the plan."""
    settings = config.load(flags, os.environ, None, here.profile)
    return named_image.find(settings, Resources(), here, dry_run, listener, Problems()).image


def _reasons(settings: config.Config, named: NamedImage) -> dict[str, str]:
    more = {"architecture": named.why} if named.why else {}
    if named.by_nobody and request.one_of(RuntimeName, settings.get("runtime")) is None:
        more["runtime"] = "no image was given"
    return {**settings.reasons(), **more}


def _with_partition(spec: JobSpec, here: Site, problems: Problems) -> JobSpec:
    """Return the request with a partition that there is, to see what else is wrong with it."""
    names = [each.name for each in here.partitions]
    missing = _missing_partition(spec, here, names)
    if not missing:
        return spec
    import difflib  # for a mistake only

    near = difflib.get_close_matches(missing, names, n=1) or names
    offers = [change(partition=name) for name in near]
    shown = f"sinfo: {', '.join(names)}"
    problems.keep(NotFound(f"there is no partition {missing}", shown, offers))
    return replace(spec, resources=replace(spec.resources, partition=near[0]))


def _missing_partition(spec: JobSpec, here: Site, names: Sequence[str]) -> str:
    """Return a partition that Slurm does not have, "" for none; sinfo does not show hidden ones."""
    wanted = [name for name in (spec.resources.partition or "").split(",") if name not in names]
    scheduler = execution.expected_scheduler(spec.scheduler, here)
    if not names or not wanted or wanted == [""] or not capabilities(scheduler).tells_nodes:
        return ""
    return next((name for name in wanted if not slurm_queries.has_partition(name)), "")


def _with_host_mpi(spec: JobSpec, here: Site) -> Site:
    """Ask for the mpirun of this machine, and its libraries, where the job takes them."""
    if here.remote_site:
        return here
    if spec.launcher is LauncherName.MPIRUN or spec.host_mpi:
        here = replace(here, mpirun=probe.mpirun())
    if spec.host_mpi and not (here.profile and here.profile.host_mpi):
        from ..sites import host_mpi

        here = replace(here, host_libraries=host_mpi.libraries())
    return here


def _with_gpus(spec: JobSpec, here: Site) -> Site:
    """Count the GPUs of this machine or of the surrounding job, where the job may get them all."""
    vendor = gpu_default.of_image(spec.image)
    scheduler = capabilities(execution.expected_scheduler(spec.scheduler, here))
    if vendor is None or gpus.settled(spec, spec.resources):
        return here
    if scheduler.within_job:
        return replace(here, allocated_gpus=probe.allocated_gpus(here.allocation))
    return replace(here, gpus=probe.gpus_here(vendor)) if scheduler.one_machine else here


def _with_apptainer(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Ask for Apptainer's version where it decides whose GPU libraries are found first."""
    asked = spec.nv or gpus.settings_used(spec.resources)
    wanted = spec.nv is not False and (asked or gpu_default.of_image(spec.image))
    is_here = runtime in FILES and runtime in here.runtimes
    if here.remote_site or not (wanted and is_here):
        return here
    return replace(here, apptainer=probe.apptainer(runtime))


def _waiting(case: Case) -> Case:
    """Put the numbers of jobs where the dependency names runs of ours."""
    from ..submit import dependency

    spec = case.spec
    scheduler = execution.expected_scheduler(spec.scheduler, case.site)
    if not capabilities(scheduler).queue:
        return case  # nothing waits there: the plan refuses it
    dependencies = spec.resources.dependency or ""
    waits = dependency.resolve(dependencies, scheduler, spec.runs_dir)
    resources = replace(spec.resources, dependency=waits.text)
    reasons = {**case.reasons, "dependency": waits.reason}
    return replace(case.asking(resources=resources), reasons=reasons)


def probe_site(
    flags: Mapping[str, Any], preset: config.ConfigLayer | None, fresh: bool = False
) -> Site:
    """Return what this machine offers, with the profile of the site that it belongs to.

    A site that was named and is not here has its profile alone. Slurm's answers may be a minute
    old, unless `fresh`.
    """
    here, host = probe.probe(fresh), os.uname().nodename
    settings = config.load(flags, os.environ, preset)
    name = settings.get("site")
    scheduler = request.one_of(SchedulerName, settings.get("scheduler"))
    profile = find.find(name, here.cluster_name, host, os.environ)
    queued = scheduler is None or capabilities(scheduler).queue
    if not (profile and name and queued):
        return replace(here, profile=profile)
    if find.is_remote_site(profile, here.cluster_name, host, os.environ):
        return find.remote(profile, os.getcwd())
    return replace(here, profile=profile)


def only_here(site: Site, *remedies: Remedy) -> None:
    """Raise UsageError for a site that is not here, where its machines are needed."""
    if site.remote_site and site.profile:
        raise find.refused(site.profile, os.uname().nodename, os.environ, *remedies)


def _mounts(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Ask the runtime how it mounts images, where the plan depends on it."""
    matters = spec.stage_image is None or staging.signals_end_mounts(spec, here)
    if here.remote_site or not matters or runtime not in (*here.runtimes, here.runtime):
        return here
    unpacks, fuse = container_runtime.mounting(runtime)
    return replace(here, unpacks=unpacks, fuse=fuse)


def _data(settings: config.Config, profile: Profile | None) -> tuple[Dataset, ...]:
    """Find the datasets; they are measured only where the plan depends on it."""
    texts = settings.get("data")
    if not texts:
        return ()
    from ..data import find

    datasets = find.all_of(texts, profile, os.environ)
    chosen = request.one_of(DataAccess, settings.get("stage-data"))
    return datasets if chosen else tuple(map(find.measured, datasets))
