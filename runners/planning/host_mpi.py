"""The host's MPI: its libraries in the image, or in an environment of `runner build env`."""

from __future__ import annotations

from ..contract.enums import Controller
from ..core.model import ImageInfo, LauncherName, MpiFlavour, RuntimeName
from ..core.plan import ChoiceId, Modules
from ..core.remedy import change, command
from ..core.site import HostMpi
from .case import Case, DecisionLog, Start

# Those whose ranks are each in a container of their own.
LAUNCHERS = (LauncherName.SRUN, LauncherName.MPIRUN, LauncherName.MPIEXEC)
PREFIX = "/opt/horovod"  # where our images have their Python
# Libraries of one family can stand in for each other (the MPICH ABI initiative).
FAMILY = {
    MpiFlavour.OPEN_MPI: "Open MPI",
    MpiFlavour.MPICH: "MPICH",
    MpiFlavour.INTEL_MPI: "MPICH",
}


def choose(case: Case, start: Start, log: DecisionLog) -> HostMpi | None:
    """Return the libraries of the host's MPI, if they are to go into the image."""
    site, image = case.site, case.image
    launcher, controller = start.launching.launcher, start.wireup.controller
    if not case.spec.host_mpi:
        return None
    if controller is not Controller.MPI:
        what = f"--host-mpi is for MPI, and the controller is {controller}"
        log.refuse("host-mpi-controller", what, "", change(controller="mpi"))
    if launcher not in LAUNCHERS:
        what = f"--host-mpi does not work with --launcher {launcher}: its MPI is the image's own"
        log.refuse("host-mpi-launcher", what, f"it goes with {', '.join(LAUNCHERS)}")
    _family(case, log)
    if site.profile and site.profile.host_mpi:
        log.choose(ChoiceId.HOST_MPI, True, f"configured for {site.profile.name}", "its profile")
        _hidden(site.profile.host_mpi, image, site.profile.name, log)
        return site.profile.host_mpi
    if site.profile and site.remote_site:
        log.refuse(
            "host-mpi-unknown",
            f"--host-mpi: the profile of {site.profile.name} does not say where its MPI is",
        )
    elif site.host_libraries is None:
        log.refuse(
            "host-mpi-not-found",
            "--host-mpi: no MPI was found on this machine",
            "neither mpirun's libraries nor the site's profile tell where it is",
            command("module", "load", "openmpi"),
        )
    else:
        where_it_is = site.host_libraries.library_path
        log.choose(ChoiceId.HOST_MPI, True, "found next to this machine's mpirun", where_it_is)
    return site.host_libraries


def _hidden(libraries: HostMpi, image: ImageInfo, name: str, log: DecisionLog) -> None:
    """Refuse mounts that would lie over what is in an image of ours."""
    targets = [text.rpartition(":")[2].rstrip("/") for text in libraries.binds]
    over = [target for target in targets if f"{PREFIX}/".startswith(f"{target}/")]
    if image.ours and over:
        log.refuse(
            "host-mpi-hides-image",
            f"--host-mpi on {name} mounts the host's {over[0]}, which hides {PREFIX} of "
            f"{image.path.name}",
            "its profile's host_mpi.binds",
            change(controller="gloo", leave_out=["host-mpi"]),
        )


def _family(case: Case, log: DecisionLog) -> None:
    """Refuse an MPI of another family, whose library has another name and other constants."""
    mpirun, image = case.site.mpirun, case.image
    if mpirun and image.mpi and FAMILY[mpirun.flavour] != FAMILY[image.mpi]:
        family = FAMILY[image.mpi]
        what = f"the Horovod in {image.path.name} needs {family}, and this machine has {mpirun}"
        log.refuse("mpi-family", what, image.how("mpi.flavour"))


def modules(case: Case, runtime: RuntimeName, log: DecisionLog) -> Modules:
    """Return the job's modules, before them those that Horovod was compiled with."""
    spec, profile = case.spec, case.site.profile
    folders = (*(profile.module_use if profile else ()), *spec.module_use)
    compiled_with = _of_environment(case, log) if runtime is RuntimeName.NONE else ()
    return Modules((*compiled_with, *spec.modules), folders, spec.module_purge)


def _of_environment(case: Case, log: DecisionLog) -> tuple[str, ...]:
    """Return its modules, less those of which others were asked for; refuse another MPI."""
    image = case.image
    _check_environment(image, log)
    asked_modules = {name.partition("/")[0] for name in case.spec.modules}
    names = [n for n in image.fact("modules").split() if n.partition("/")[0] not in asked_modules]
    if names:
        log.choose(
            ChoiceId.MODULE, " ".join(names), "Horovod was compiled with it", image.how("modules")
        )
    return tuple(names)


def _check_environment(image: ImageInfo, log: DecisionLog) -> None:
    """Compare what is there now with what the environment's label says."""
    modules = [f"--module={name}" for name in image.fact("modules").split()]
    again = command("runner", "build", "env", f"{image.path}.new", *modules)
    if image.fact("horovod.into"):
        again = command("runner", "build", "horovod", "--into", image.path, *modules)
    if gone := image.fact("modules.gone"):
        what = f"the Horovod in {image.path} was compiled with modules that are no longer available"
        log.refuse("modules-gone", what, f"module load fails: {gone}", again)
    then, now = image.fact("mpi.sha256"), image.fact("mpi.sha256.now")
    library = image.fact("mpi.library")
    if now == "gone":
        what = f"the MPI with which the Horovod in {image.path} was compiled is gone"
        log.refuse("mpi-gone", what, f"{library} is not there", again)
    elif now != then:
        what = f"the MPI changed after the Horovod in {image.path} was compiled"
        log.refuse(
            "mpi-changed", what, f"{library} has SHA-256 {now[:12]}..., not {then[:12]}...", again
        )
