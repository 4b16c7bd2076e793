"""The host's MPI libraries in the image: which, and whether they can serve it at all."""

from __future__ import annotations

from ..core.model import ImageInfo, JobSpec, Site
from ..core.site_profile import HostMpi
from .choices import Notes

LAUNCHERS = ("srun", "mpirun", "mpiexec")  # those whose ranks are each in a container of their own
# Libraries of one family can stand in for each other (the MPICH ABI initiative).
OURS = "/opt/horovod"  # where our images have their Python
FAMILY = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "MPICH"}


def choose(
    spec: JobSpec, site: Site, image: ImageInfo, launcher: str, controller: str, notes: Notes
) -> HostMpi | None:
    """Choose where the libraries of the host's MPI are, if they shall go into the image."""
    if not spec.host_mpi:
        return None
    if controller != "mpi":
        notes.refuse(
            f"--host-mpi is for MPI, and the controller is {controller}", "", "--controller mpi"
        )
    if launcher not in LAUNCHERS:
        what = f"--host-mpi does not go with --launcher {launcher}: its MPI is the image's own"
        notes.refuse(what, f"it goes with {', '.join(LAUNCHERS)}")
    _family(site, image, notes)
    if site.profile and site.profile.host_mpi:
        notes.choose("host MPI", "in the image", f"as {site.profile.name} has it", "its profile")
        _hidden(site.profile.host_mpi, image, site.profile.name, notes)
        return site.profile.host_mpi
    if site.host_libraries is None:
        notes.refuse(
            "--host-mpi: no MPI was found on this machine",
            "neither mpirun's libraries nor the site's profile tell where it is",
            "module load openmpi",
        )
        return None
    where_it_is = site.host_libraries.library_path
    notes.choose("host MPI", "in the image", "found beside this machine's mpirun", where_it_is)
    return site.host_libraries


def _hidden(libraries: HostMpi, image: ImageInfo, name: str, notes: Notes) -> None:
    """Refuse mounts that would lie over what is in an image of ours."""
    targets = [text.rpartition(":")[2].rstrip("/") for text in libraries.binds]
    over = [target for target in targets if f"{OURS}/".startswith(f"{target}/")]
    if image.ours and over:
        notes.refuse(
            f"--host-mpi on {name} mounts the host's {over[0]}, over {OURS} of {image.path.name}",
            "its profile's host_mpi.binds",
            "--controller gloo, leave out --host-mpi",
        )


def _family(site: Site, image: ImageInfo, notes: Notes) -> None:
    """Refuse an MPI of another family, whose library has another name and other constants."""
    theirs = FAMILY.get(site.host_mpi.partition(" ")[0], "")
    own = FAMILY.get(image.fact("mpi.flavour"), "")
    if theirs and own and theirs != own:
        what = f"the Horovod in {image.path.name} needs {own}, and this machine has {site.host_mpi}"
        notes.refuse(what, image.how("mpi.flavour"))
