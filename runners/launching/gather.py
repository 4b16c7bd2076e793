"""From settings to a plan: gathers what is known of the request, the site and the image; solves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core import gpus
from ..core.disk_space import mount_type
from ..core.errors import NotFound
from ..core.model import (
    ACTIVE,
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
from ..images import container_runtime, local_image, reference
from ..images.trust import recorded_digest
from ..planning import execution, site_limits, solver, staging
from ..planning.case import Case
from ..schedulers import capabilities, slurm_queries
from ..script import environment
from ..settings import config, request, trainers
from ..sites import find, probe


def plan(
    trainer: str, args: Sequence[str], flags: Mapping[str, Any], dry_run: bool, listener: Listener
) -> Plan:
    """Return the plan for what the flags, files and environment ask; see `plan_for`."""
    resolved, preset = trainers.find(trainer, tuple(args))
    return plan_for(resolved, preset, flags, probe_site(flags, preset), dry_run, listener)


def plan_for(
    trainer: Trainer,
    preset: config.ConfigLayer | None,
    flags: Mapping[str, Any],
    here: Site,
    dry_run: bool,
    listener: Listener,
) -> Plan:
    """Return the plan for a trainer that was found, with its preset, on a site that was asked.

    One that cannot work has refusals. Raises UsageError for a site that is not here, unless it is
    only a dry run, which neither pulls the image nor reads it whole.
    """
    if not dry_run:
        only_here(here, change(dry_run=True))
    settings = config.load(flags, os.environ, preset, here.profile)
    runtime = execution.expected_runtime(
        request.one_of(RuntimeName, settings.get("runtime")),
        request.one_of(SchedulerName, settings.get("scheduler")),
        here,
    )
    resources = request.resources(settings, bool(trainer.command))
    unnamed = _unnamed_environment(settings, here)
    if unnamed:
        image, why, runtime = unnamed, "", RuntimeName.NONE
    else:
        image = _image(settings.get("image"), runtime, dry_run, listener)
        image, why = _image_for_nodes(settings.get("image"), image, resources, here.profile)
        image = container_runtime.with_storage(_looked_into(image, listener))
    spec = request.job_spec(settings, resources, image, trainer, _data(settings, here.profile))
    if unnamed:
        spec = replace(spec, runtime=RuntimeName.NONE)
    _check_partition(spec, here)
    if dry_run:
        recorded = recorded_digest.without_reading(image.path)
    else:
        recorded = recorded_digest.check(image.path, listener.progress)
    files = [spec.runs_dir, image.path, spec.trainer.file, *(each.path for each in spec.data)]
    case = Case(
        spec,
        _with_apptainer(spec, _with_host_mpi(spec, _mounts(spec, here, runtime)), runtime),
        _reasons(settings, why, unnamed is not None),
        settings.unasked,
        {} if here.remote_site else {path: mount_type(path) for path in filter(None, files)},
    )
    plan = solver.solve(_waiting(case) if spec.resources.dependency else case)
    return replace(plan, verified_digest=recorded.digest, verified_stamp=recorded.stamp)


def _reasons(settings: config.Config, architecture: str, unnamed: bool) -> dict[str, str]:
    more = {"architecture": architecture} if architecture else {}
    if unnamed and request.one_of(RuntimeName, settings.get("runtime")) is None:
        more["runtime"] = "no image was given"
    return {**settings.reasons(), **more}


def _unnamed_environment(settings: config.Config, here: Site) -> ImageInfo | None:
    """Return the environment that stands in for an image that nobody named, None for none."""
    runtime = request.one_of(RuntimeName, settings.get("runtime"))
    if settings.get("image") or runtime not in (None, RuntimeName.NONE) or here.remote_site:
        return None
    active = any(os.environ.get(name) for name in ACTIVE)
    if not (active or runtime or settings.is_asked("module")):
        return None
    from ..images.facts import environment as named  # 20 ms that other launches need not pay

    names = [n for n in settings.get("module") or () if not environment.of_runtime(n)]
    profile = here.profile
    modules = named.LoadedModules(
        tuple(names) if settings.is_asked("module") else (),
        (*(profile.module_use if profile else ()), *request.module_folders(settings)),
        bool(settings.get("module-purge")),
    )
    return named.unnamed(modules, runtime)


def _check_partition(spec: JobSpec, here: Site) -> None:
    """Raise NotFound for a partition that Slurm does not have; sinfo does not show hidden ones."""
    names = [each.name for each in here.partitions]
    wanted = [name for name in (spec.resources.partition or "").split(",") if name not in names]
    scheduler = execution.expected_scheduler(spec.scheduler, here)
    if not names or not wanted or wanted == [""] or not capabilities(scheduler).tells_nodes:
        return
    missing = next((name for name in wanted if not slurm_queries.has_partition(name)), "")
    if missing:
        import difflib  # for a mistake only

        near = difflib.get_close_matches(missing, names, n=1) or names
        shown = f"sinfo: {', '.join(names)}"
        offers = [change(partition=name) for name in near]
        raise NotFound(f"there is no partition {missing}", shown, offers)


def _image_for_nodes(
    name: str | None, image: ImageInfo, resources: Resources, profile: Profile | None
) -> tuple[ImageInfo, str]:
    """Return the image for the nodes' architecture, and why it is another than was named."""
    architectures = site_limits.architectures(resources, profile) if profile else set()
    only = architectures.pop() if len(architectures) == 1 else ""
    return local_image.for_nodes(name, image, only)


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


def _with_apptainer(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Ask for Apptainer's version where it decides whose GPU libraries are found first."""
    wanted = spec.nv is not False and (spec.nv or gpus.settings_used(spec.resources))
    is_here = runtime in execution.CONTAINERS and runtime in here.runtimes
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


def _looked_into(image: ImageInfo, listener: Listener) -> ImageInfo:
    """Look into an image that is not ours, and say so, since it takes seconds the first time."""
    if image.ours or not image.path.exists():
        return image
    from ..images import inspect  # 20 ms that a launch of an image of ours need not pay

    return inspect.inspected(image, listener.tell)


def _image(name: str | None, runtime: RuntimeName, dry_run: bool, listener: Listener) -> ImageInfo:
    """Find the image; pull a URI now, unless it is only a dry run: never by the job's ranks."""
    if runtime not in execution.CONTAINERS:
        from ..images.facts import environment as named  # 20 ms that other launches need not pay

        return named.image(name, runtime)
    if not name or not reference.is_remote(name):
        return local_image.on_disk(name)
    from ..images import pull

    with listener.progress() as progress:
        return pull.image(name, dry_run, progress)
