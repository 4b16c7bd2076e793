"""Where a job runs and in what: scheduler, container runtime, launcher."""

from __future__ import annotations

from ..core.model import ImageInfo, JobSpec, Site
from ..schedulers import SCHEDULERS, capabilities
from .choices import Notes

CONTAINERS = ("apptainer", "singularity")
BY_NAME = ("shifter", "podman-hpc")  # their images are names in a store of their own
WHY_LAUNCHER = {
    "srun": "Slurm starts, counts and ends the ranks itself",
    "mpiexec": "the scheduler's own, which knows the nodes of the job",
    "mpirun": "the host's, with the list of the job's nodes",
    "local": "one container, one process for each rank",
}


def scheduler(spec: JobSpec, site: Site, notes: Notes) -> str:
    """Choose who queues the job."""
    wanted = spec.scheduler
    if wanted == "auto":
        return _by_itself(spec, site, notes)
    notes.choose("scheduler", wanted, "as asked")
    there = capabilities(wanted)
    if there.queue and wanted not in site.schedulers:
        what = f"there is no {there.title} on this machine"
        there_is = "the same on a login node of the cluster"
        notes.refuse(what, f"{there.command} is not on the PATH", there_is)
    if there.within_job:
        _inside(spec, site, notes)
    if there.one_machine:
        _one_machine(spec, notes)
    return wanted


def _by_itself(spec: JobSpec, site: Site, notes: Notes) -> str:
    profile, queues = site.profile, [name for name in SCHEDULERS if capabilities(name).queue]
    if profile and profile.scheduler in queues and not site.schedulers:
        name = profile.scheduler
        return notes.choose("scheduler", name, f"what {profile.name} has", "its profile")
    for name in queues:
        if name in site.schedulers:
            reason = f"{capabilities(name).command} is on this machine"
            if site.allocation:
                reason += f"; --scheduler allocation would run within job {site.allocation}"
            return notes.choose("scheduler", name, reason)
    notes.choose("scheduler", "local", "no sbatch on this machine")
    _one_machine(spec, notes)
    return "local"


def _one_machine(spec: JobSpec, notes: Notes) -> None:
    nodes, tasks = spec.resources.nodes, spec.resources.tasks
    if nodes > 1:
        notes.refuse(
            f"--nodes {nodes} needs a scheduler, and this is one machine",
            notes.decisions[-1].reason,
            f"--nodes 1 --ntasks {tasks}",
        )


def _inside(spec: JobSpec, site: Site, notes: Notes) -> None:
    if not site.allocation:
        nodes = spec.resources.nodes
        notes.refuse(
            "--scheduler allocation: this is not within a job",
            "SLURM_JOB_ID is not set",
            f"salloc --nodes {nodes}",
        )
    elif spec.resources.nodes > site.allocated_nodes:
        notes.refuse(
            f"job {site.allocation} has {site.allocated_nodes} nodes, fewer than --nodes "
            f"{spec.resources.nodes}",
            f"SLURM_JOB_NUM_NODES is {site.allocated_nodes}",
            f"--nodes {site.allocated_nodes}",
        )


def runtime(spec: JobSpec, site: Site, where: str, notes: Notes) -> str:
    """Choose what runs the image."""
    if spec.runtime != "auto":
        missing = spec.runtime != "none" and spec.runtime not in (*site.runtimes, site.runtime)
        evidence = "not on this machine; taken to be on the nodes" if missing else ""
        if missing and not capabilities(where).queue:
            notes.refuse(f"there is no {spec.runtime} on this machine", "it is not on the PATH")
        return notes.choose("runtime", spec.runtime, "as asked", evidence)
    if site.runtime:
        return notes.choose("runtime", site.runtime, "found on this machine")
    known = site.profile.runtimes if site.profile else ()
    if known and not capabilities(where).one_machine:
        name = site.profile.name if site.profile else ""
        return notes.choose("runtime", known[0], f"what {name} has", "its profile")
    if capabilities(where).one_machine:
        notes.refuse(
            "there is no container runtime on this machine",
            "neither apptainer nor singularity is on the PATH",
            "module load apptainer",
        )
    return notes.choose("runtime", "apptainer", "not on this machine; assumed on the nodes")


def expected(wanted: str, site: Site) -> str:
    """Return the runtime of jobs that ask for `wanted`, before anything else is known of them."""
    if wanted != "auto":
        return wanted
    known = (site.runtime, *(site.profile.runtimes if site.profile else ()), "apptainer")
    return next(name for name in known if name)


def launcher(spec: JobSpec, where: str, controller: str, notes: Notes) -> str:
    """Choose who starts the ranks."""
    there = capabilities(where).launchers
    if spec.launcher == "auto":
        why = WHY_LAUNCHER[there[0]]
        if capabilities(where).one_machine and controller == "mpi":
            why = "one container, in which its mpirun starts the ranks"
        return notes.choose("launcher", there[0], why)
    if spec.launcher not in there:
        notes.refuse(
            f"--launcher {spec.launcher} does not go with --scheduler {where}",
            f"which has {', '.join(there)}",
        )
    return notes.choose("launcher", spec.launcher, "as asked")


def architecture(where: str, site: Site, image: ImageInfo, notes: Notes) -> None:
    """Only a login node can be of another kind than the machines of the job."""
    here, there = site.architecture, image.architecture
    if not here or not there or here == there:
        return
    if capabilities(where).one_machine:
        message = f"{image.path.name} is for {there} and this machine is {here}"
        notes.refuse(message, "", f"build or pull it for {here}")
    else:
        reason = f"this machine is {here}, the nodes have to be {there}"
        notes.choose("architecture", there, reason)
