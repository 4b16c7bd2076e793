"""The solver: (JobSpec, Site, ImageInfo) -> Plan, each choice with its reason, or a refusal.

Pure: it looks at nothing but its three inputs.
"""

from __future__ import annotations

from . import driver
from .errors import Refused, UsageError
from .model import BindMount, Decision, ImageInfo, JobSpec, Plan, Site

DATA_TARGET = "/data"


def solve(spec: JobSpec, site: Site, image: ImageInfo) -> Plan:
    """Return the plan; raise Refused, or UsageError, when this cannot work here."""
    _check_framework(spec, image)
    scheduler = _scheduler(spec, site)
    runtime = _runtime(scheduler.value, site)
    controller = _controller(spec, site, image, scheduler.value)
    mpi = _mpi(spec, site, image, scheduler.value, controller.value)
    launcher = _launcher(scheduler.value, controller.value)
    nv = _nv(spec, image)
    gpu = driver.check(scheduler.value, site, image) if nv.value == "yes" else []
    recipe = _recipe(spec, image)
    about = [_image(image), _architecture(scheduler.value, site, image)]
    decisions = [*about, scheduler, runtime, launcher, controller, mpi, nv, *gpu, recipe]
    return Plan(
        spec=spec,
        scheduler=scheduler.value,
        runtime=runtime.value,
        launcher=launcher.value,
        controller=controller.value,
        mpi=mpi.value if mpi else None,
        nv=nv.value == "yes",
        brings_recipe=recipe is not None and recipe.value == "from this machine",
        binds=_binds(spec),
        image_digest=image.digest,
        decisions=tuple(decision for decision in decisions if decision),
        driver=image.labels.get(driver.MINIMUM),
    )


def _image(image: ImageInfo) -> Decision | None:
    if not image.source:
        return None
    return Decision("image", image.digest or image.path.name, f"from {image.source}")


def _architecture(scheduler: str, site: Site, image: ImageInfo) -> Decision | None:
    """Only a login node can be of another kind than the machines of the job."""
    here, there = site.architecture, image.architecture
    if not here or not there or here == there:
        return None
    if scheduler == "local":
        message = f"{image.path.name} is for {there} and this machine is {here}"
        raise Refused(message, remedy=f"build or pull it for {here}")
    return Decision("architecture", there, f"this machine is {here}, the nodes have to be {there}")


def _check_framework(spec: JobSpec, image: ImageInfo) -> None:
    there = image.listed("horovod.frameworks")
    wanted = spec.trainer.requires
    if wanted and there and wanted not in there:
        raise Refused(
            f"{spec.trainer.name} needs {wanted}, which {image.path.name} does not have",
            f"its label horovod.frameworks is {','.join(there)}",
        )


def _scheduler(spec: JobSpec, site: Site) -> Decision:
    if spec.scheduler == "slurm" and not site.has_slurm:
        raise Refused(
            "there is no Slurm on this machine",
            "sbatch is not on the PATH",
            "--scheduler local, or run this on the cluster's login node",
        )
    if spec.scheduler != "auto":
        chosen = Decision("scheduler", spec.scheduler, "as asked")
    elif site.has_slurm:
        chosen = Decision("scheduler", "slurm", "sbatch is on this machine")
    else:
        chosen = Decision("scheduler", "local", "no sbatch on this machine")
    if chosen.value == "local" and spec.resources.nodes > 1:
        raise UsageError(
            f"--nodes {spec.resources.nodes} needs a scheduler, and this is one machine",
            chosen.reason,
            f"--nodes 1 --ntasks {spec.resources.tasks}",
        )
    return chosen


def _runtime(scheduler: str, site: Site) -> Decision:
    if site.runtime:
        return Decision("runtime", site.runtime, "found on this machine")
    if scheduler == "local":
        raise Refused(
            "there is no container runtime on this machine",
            "neither apptainer nor singularity is on the PATH",
            "module load apptainer",
        )
    return Decision("runtime", "apptainer", "not on this machine; assumed on the nodes")


def _controller(spec: JobSpec, site: Site, image: ImageInfo, scheduler: str) -> Decision:
    there = image.listed("horovod.controllers")
    if spec.controller != "auto":
        if there and spec.controller not in there:
            raise Refused(
                f"the Horovod in {image.path.name} has no {spec.controller} controller",
                f"its label horovod.controllers is {','.join(there)}",
                f"--controller {there[0]}",
            )
        return Decision("controller", spec.controller, "as asked")
    if not there:
        return Decision(
            "controller",
            "gloo",
            "the image does not say what it has; Gloo needs nothing of the host",
        )
    if "mpi" in there and scheduler == "slurm" and _speaks_pmix(image) and "pmix" in site.mpi_types:
        version = image.labels["pmix.version"]
        return Decision(
            "controller", "mpi", f"the image has PMIx {version} and srun offers --mpi=pmix"
        )
    if "gloo" in there:
        return Decision("controller", "gloo", _why_not_mpi(image, there, scheduler))
    return Decision("controller", "mpi", "the only one in the image")


def _speaks_pmix(image: ImageInfo) -> bool:
    return image.labels.get("pmix.version", "none") != "none"


def _why_not_mpi(image: ImageInfo, there: tuple[str, ...], scheduler: str) -> str:
    if scheduler == "local":
        return "on one machine it needs no launcher"
    if "mpi" not in there:
        return "the only one in the image"
    if not _speaks_pmix(image):
        return "the image's MPI has no PMIx"
    return "srun offers no --mpi=pmix"


def _mpi(
    spec: JobSpec, site: Site, image: ImageInfo, scheduler: str, controller: str
) -> Decision | None:
    if scheduler != "slurm":
        return None
    if spec.mpi:
        _check_mpi_type(spec.mpi, site, image, controller)
        return Decision("srun --mpi", spec.mpi, "as asked")
    if controller == "gloo":
        return Decision("srun --mpi", "none", "Gloo needs no PMI")
    wanted = "pmi2" if image.labels.get("mpi.flavour") == "mpich" else "pmix"
    if wanted not in site.mpi_types:
        raise Refused(
            f"the MPI in the image needs srun --mpi={wanted}, which this Slurm does not have",
            f"srun --mpi=list: {', '.join(site.mpi_types)}",
            "--controller gloo",
        )
    return Decision("srun --mpi", wanted, "what the image's MPI speaks, and srun offers it")


def _check_mpi_type(mpi: str, site: Site, image: ImageInfo, controller: str) -> None:
    if mpi not in site.mpi_types:
        raise Refused(
            f"this Slurm has no --mpi={mpi}", f"srun --mpi=list: {', '.join(site.mpi_types)}"
        )
    if controller == "mpi" and image.labels.get("mpi.flavour") == "openmpi" and mpi == "pmi2":
        raise Refused(
            "Debian's Open MPI has no PMI-2 client: with --mpi=pmi2 every rank would be alone",
            f"the image's label mpi.version is {image.labels.get('mpi.version')}",
            "--mpi pmix, or --controller gloo",
        )


def _launcher(scheduler: str, controller: str) -> Decision:
    if scheduler == "slurm":
        return Decision("launcher", "srun", "Slurm starts, counts and ends the ranks itself")
    if controller == "mpi":
        return Decision("launcher", "local", "one container, in which its mpirun starts the ranks")
    return Decision("launcher", "local", "one container, one process for each rank")


def _nv(spec: JobSpec, image: ImageInfo) -> Decision:
    if spec.nv is not None:
        return Decision("--nv", "yes" if spec.nv else "no", "as asked")
    if spec.resources.wants_gpus:
        if image.labels.get("cuda.version") == "none":
            raise Refused(
                f"the job asks for GPUs, and {image.path.name} cannot use them",
                "its label cuda.version is none",
                "--image horovod_gpu.sif (make build-gpu), or --no-nv to leave the GPUs unused",
            )
        return Decision("--nv", "yes", "the job asks for GPUs")
    return Decision("--nv", "no", "the job asks for no GPU")


def _recipe(spec: JobSpec, image: ImageInfo) -> Decision | None:
    if spec.trainer.module is None:
        return None
    if spec.trainer.name in image.listed("recipes"):
        return Decision("recipe", "from the image", "its label recipes names it")
    return Decision("recipe", "from this machine", "the image does not have it")


def _binds(spec: JobSpec) -> tuple[BindMount, ...]:
    binds = list(spec.binds)
    if spec.data:
        binds.append(BindMount(str(spec.data), DATA_TARGET, read_only=True))
    if spec.trainer.file:
        folder = str(spec.trainer.file.parent)
        binds.append(BindMount(folder, folder))
    return tuple(binds)
