"""The network: the interface for Gloo, and the variables that MPI and the site need."""

from __future__ import annotations

from ..model import ImageInfo, JobSpec, Site
from ..rank.gpu import older
from ..sites import adapt
from .notes import Notes


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
    if controller == "mpi" and spec.resources.overcommit:
        notes.set(
            "OMPI_MCA_mpi_yield_when_idle",
            "1",
            "ranks that share a CPU give it up while they wait",
        )
    if site.profile:
        notes.variables += adapt.variables(spec, site.profile)
    for name in [v.name for v in notes.variables if v.name in site.environment]:
        notes.warn(f"your {name}={site.environment[name]} is kept")


def _mpi_in_containers(spec: JobSpec, image: ImageInfo, notes: Notes) -> None:
    """Each rank has a user namespace of its own, and the PMIx of another version outside."""
    if image.fact("mpi.flavour") == "mpich":
        if older(image.fact("mpi.version") or "0", "4.2") and not spec.host_mpi:
            # MPICH issue 6596: from 4.2 on there is a barrier in MPI_Finalize.
            notes.set(
                "UCX_TLS",
                "^sm",
                "MPICH before 4.2 hangs in MPI_Finalize with UCX's shared memory, which "
                "separate user namespaces forbid anyway",
            )
        return
    notes.set(
        "OMPI_MCA_btl_vader_single_copy_mechanism",
        "none",
        "ranks in separate user namespaces may not copy from each other's memory",
    )
    # Slurm 22.05 with PMIx 4 complains of ds12's lock on every rank, seen with Open MPI 4.1.
    notes.set("PMIX_MCA_gds", "hash", "the image's PMIx shares no memory with the host's")
