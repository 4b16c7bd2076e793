"""The network: the interface for Gloo, and the variables that MPI and the site need."""

from __future__ import annotations

from ..core.model import ImageInfo, JobSpec, Site
from ..injob.rank.gpu import older
from ..settings.sites import adapt
from .choices import Notes

# The network of torch_mnist, 2 ranks; on cores with nothing else to do it makes less difference.
MEASURED = "make bench-train, 2 ranks on two cores: 1.31 times the steps/s of a small network"


def interface(spec: JobSpec, controller: str, one_node: bool, notes: Notes) -> None:
    """Say which interface Gloo will use; MPI and NCCL choose by themselves or by the site's."""
    if controller != "gloo":
        return
    if spec.interface:
        notes.choose("interface", spec.interface, "as asked")
    elif one_node:
        notes.choose("interface", "loopback", "all ranks are on one node")
    else:
        reason = "each node takes the one that leads to rank 0's node"
        notes.choose("interface", "found on the nodes", reason)


def variables(
    spec: JobSpec, site: Site, image: ImageInfo, controller: str, runtime: str, notes: Notes
) -> None:
    """Set what MPI in containers and what the site's network needs."""
    if controller == "mpi" and runtime != "none":
        _mpi_in_containers(spec, image, notes)
    if controller == "mpi":
        _give_way(spec, image, notes)
    if site.profile:
        notes.variables += adapt.variables(spec, site.profile)
    for name in [v.name for v in notes.variables if v.name in site.environment]:
        notes.warn(f"your {name}={site.environment[name]} is kept")


def _give_way(spec: JobSpec, image: ImageInfo, notes: Notes) -> None:
    """Open MPI waits by asking again and again, which takes a core from whoever computes."""
    name = "OMPI_MCA_mpi_yield_when_idle"
    if spec.resources.overcommit:
        notes.set(name, "1", "ranks that share a CPU give it up while they wait")
    elif not spec.resources.wants_gpus and image.fact("mpi.flavour") in ("", "openmpi"):
        reason = "on CPUs Horovod's thread shares a rank's cores with training"
        notes.set(name, "1", reason)
        notes.choose("waiting in MPI", "gives way to others", reason, MEASURED)


def _mpi_in_containers(spec: JobSpec, image: ImageInfo, notes: Notes) -> None:
    """Each rank has a user namespace of its own, and the PMIx of another version outside."""
    if image.fact("mpi.flavour") == "mpich":
        if not spec.host_mpi:
            _mpich(image, notes)
        return
    notes.set(
        "OMPI_MCA_btl_vader_single_copy_mechanism",
        "none",
        "ranks in separate user namespaces may not copy from each other's memory",
    )
    # Slurm 22.05 with PMIx 4 complains of ds12's lock on every rank, seen with Open MPI 4.1.
    notes.set("PMIX_MCA_gds", "hash", "the image's PMIx shares no memory with the host's")


def _mpich(image: ImageInfo, notes: Notes) -> None:
    """MPICH without the shared memory of UCX; its device is such as ch4:ucx or ch4:ofi."""
    device, version = image.fact("mpi.device"), image.fact("mpi.version")
    why = "UCX's shared memory does not work across the ranks' user namespaces"
    if "ofi" in device or not device:
        notes.set("MPIR_CVAR_CH4_NETMOD", "ofi", why)
    if "ofi" not in device:
        notes.set("UCX_TLS", "^sm", why)
    if "ofi" not in device and older(version or "0", "4.2"):
        # MPICH issue 6596; seen with 4.0.2 in one of six short jobs.
        notes.warn(
            f"MPICH {version or 'of unknown version'} over UCX may hang in MPI_Finalize, as all "
            "before 4.2; a newer one, or --controller gloo, does not"
        )
