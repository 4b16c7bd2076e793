"""What the site has for one job: its partition, and what is asked only where the job needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import gpus
from ..core.disk_space import mount_type
from ..core.errors import NotFound
from ..core.model import JobSpec, LauncherName, RuntimeName
from ..core.remedy import change
from ..core.site import Site
from ..images import container_runtime
from ..planning import execution, gpu_default, staging
from ..runtimes import FILES
from ..schedulers import capabilities
from ..sites import probe, slurm_nodes


@dataclass(frozen=True)
class JobSite:
    """The site of one job, with all that its plan depends on.

    `filesystems` are the kinds of those on which the job's files and folders lie. With a `problem`
    the partition is missing, and `spec` asks for one that there is, to see what else is wrong.
    """

    spec: JobSpec
    site: Site
    filesystems: Mapping[Path, str]
    problem: NotFound | None


def find(spec: JobSpec, here: Site, runtime: RuntimeName) -> JobSite:
    """Ask the site for what one job depends on, and others do not."""
    spec, problem = _with_partition(spec, here)
    site = _with_gpus(spec, _with_mounts(spec, here, runtime))
    site = _with_apptainer(spec, _with_host_mpi(spec, site), runtime)
    return JobSite(spec, site, {} if here.remote_site else dict(_filesystems(spec)), problem)


def in_full(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Return the site with what other settings for this job may depend on, too."""
    if here.remote_site:
        return here
    vendor, apptainer = gpu_default.of_image(spec.image), ""
    if vendor and runtime in FILES and runtime in here.runtimes:
        apptainer = here.apptainer or probe.apptainer(runtime)
    return replace(
        here,
        mpirun=here.mpirun or probe.mpirun(),
        apptainer=apptainer,
        gpus=here.gpus or (probe.gpus_here(vendor) if vendor else 0),
        allocated_gpus=here.allocated_gpus
        or (probe.allocated_gpus(here.allocation) if here.allocation else 0),
    )


def _filesystems(spec: JobSpec) -> Iterator[tuple[Path, str]]:
    """Yield the files and folders of a job, each with the kind of the file system it is on."""
    files = [spec.runs_dir, spec.image.path, spec.trainer.file, *(data.path for data in spec.data)]
    for path in filter(None, files):
        yield path, mount_type(path)


def _with_mounts(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Ask the runtime how it mounts images, where the plan depends on it."""
    matters = spec.stage_image is None or staging.signals_end_mounts(spec, here)
    if here.remote_site or not matters or runtime not in (*here.runtimes, here.runtime):
        return here
    unpacks, fuse = container_runtime.mounting(runtime)
    return replace(here, unpacks=unpacks, fuse=fuse)


def _with_gpus(spec: JobSpec, here: Site) -> Site:
    """Count the GPUs of this machine or of the surrounding job, where the job may get them all."""
    vendor = gpu_default.vendor(spec, spec.resources)
    if vendor is None:
        return here
    scheduler = capabilities(execution.expected_scheduler(spec.scheduler, here))
    if scheduler.within_job:
        return replace(here, allocated_gpus=probe.allocated_gpus(here.allocation))
    return replace(here, gpus=probe.gpus_here(vendor)) if scheduler.one_machine else here


def _with_host_mpi(spec: JobSpec, here: Site) -> Site:
    """Ask for the mpirun of this machine, and its libraries, where the job takes them."""
    if here.remote_site:
        return here
    if spec.launcher is LauncherName.MPIRUN or spec.host_mpi:
        here = replace(here, mpirun=probe.mpirun())
    if spec.host_mpi and not (here.profile and here.profile.host_mpi):
        from ..sites import find_host_mpi

        here = replace(here, host_libraries=find_host_mpi.libraries())
    return here


def _with_apptainer(spec: JobSpec, here: Site, runtime: RuntimeName) -> Site:
    """Ask for Apptainer's version where it decides whose GPU libraries are found first."""
    asked = spec.nv or gpus.settings_used(spec.resources)
    wanted = spec.nv is not False and (asked or gpu_default.of_image(spec.image))
    is_here = runtime in FILES and runtime in here.runtimes
    if here.remote_site or not (wanted and is_here):
        return here
    return replace(here, apptainer=probe.apptainer(runtime))


def _with_partition(spec: JobSpec, here: Site) -> tuple[JobSpec, NotFound | None]:
    """Return the request with a partition that there is, and that the one it names is missing."""
    names = [partition.name for partition in here.partitions]
    missing = _missing_partition(spec, here, names)
    if not missing:
        return spec, None
    import difflib  # for a mistake only

    near = difflib.get_close_matches(missing, names, n=1) or names
    offers = [change(partition=name) for name in near]
    shown = f"sinfo: {', '.join(names)}"
    problem = NotFound(f"there is no partition {missing}", shown, offers, id="partition-unknown")
    return replace(spec, resources=replace(spec.resources, partition=near[0])), problem


def _missing_partition(spec: JobSpec, here: Site, names: Sequence[str]) -> str:
    """Return a partition that Slurm does not have, "" for none; sinfo does not show hidden ones."""
    wanted = [name for name in (spec.resources.partition or "").split(",") if name not in names]
    scheduler = execution.expected_scheduler(spec.scheduler, here)
    if not names or not wanted or wanted == [""] or not capabilities(scheduler).tells_nodes:
        return ""
    return next((name for name in wanted if not slurm_nodes.has_partition(name)), "")
