"""Whether an image's MPI joins the world of what starts it: its PMI, srun's --mpi=, the mpirun.

The rules are those that the matrix proves cell by cell (tests/matrix).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..contract.enums import WordEnum
from ..core.model import ImageInfo, MpiFlavour
from ..core.site import Mpirun


class PmiClient(WordEnum):
    """What an MPI speaks to who starts it, by the label pmi.client; NONE is without any MPI."""

    PMIX = "pmix"
    PMI2 = "pmi2"
    PMI1 = "pmi1"
    NONE = "none"


@dataclass(frozen=True)
class Pmi:
    """Its name, srun's --mpi= and the mpiruns that offer it."""

    name: str
    srun: str
    mpiruns: tuple[MpiFlavour, ...]


OF_MPICH = (MpiFlavour.MPICH, MpiFlavour.INTEL_MPI)
# Slurm's pmi2 plugin also understands PMI-1, the older wire protocol of MPICH.
SPOKEN: Mapping[PmiClient, Pmi] = {
    PmiClient.PMIX: Pmi("PMIx", "pmix", (MpiFlavour.OPEN_MPI,)),
    PmiClient.PMI2: Pmi("PMI-2", "pmi2", OF_MPICH),
    PmiClient.PMI1: Pmi("PMI-1", "pmi2", OF_MPICH),
}
# Open MPI in the image: the generations of mpirun whose worlds it joins, beside its own.
JOINS = {"4": ("6",), "5": ("4", "6")}


def client(image: ImageInfo) -> PmiClient | None:
    """Return what the image's MPI speaks; None if unknown."""
    known = image.fact("pmi.client")
    if known:
        return PmiClient.of(known)
    if image.mpi is MpiFlavour.OPEN_MPI:
        return PmiClient.PMIX if image.fact("pmix.version") not in ("", "none") else None
    if image.mpi:
        return PmiClient.PMI2
    return PmiClient.NONE if image.fact("mpi.version") == "none" else None


def spoken(image: ImageInfo) -> Pmi | None:
    """Return the PMI of the image's MPI; None without one, and where it is not known."""
    speaks = client(image)
    return SPOKEN.get(speaks) if speaks else None


def _offered(mpi: str) -> str:
    """Return the name of the PMI of `srun --mpi=MPI`, of which there may be several (pmix_v5)."""
    if mpi == "none":
        return "no PMI"
    return next((pmi.name for pmi in SPOKEN.values() if pmi.srun == mpi.partition("_")[0]), mpi)


def against_srun(image: ImageInfo, mpi: str) -> str:
    """Return why its MPI joins no world of `srun --mpi=MPI`, "" if it does or is unknown."""
    of_image = spoken(image)
    if of_image is None or mpi.partition("_")[0] == of_image.srun:
        return ""
    return (
        f"the MPI in {image.path.name} speaks {of_image.name}, and srun --mpi={mpi} offers "
        f"{_offered(mpi)}: every rank would be alone (world size 1)"
    )


def against_mpirun(image: ImageInfo, mpirun: Mpirun) -> str:
    """Return why its MPI joins no world of this mpirun, "" if it does or is unknown."""
    of_image = spoken(image)
    if of_image is None:
        return ""
    if mpirun.flavour not in of_image.mpiruns:
        offers = next(pmi.name for pmi in SPOKEN.values() if mpirun.flavour in pmi.mpiruns)
        return (
            f"the MPI in {image.path.name} speaks {of_image.name}, and this machine's mpirun "
            f"({mpirun}) offers {offers}: every rank would be alone (world size 1)"
        )
    version = image.fact("mpi.version")
    generation = version.partition(".")[0]
    joined = (generation, *JOINS.get(generation, ()))
    of_mpirun = mpirun.version.partition(".")[0]
    if mpirun.flavour is MpiFlavour.OPEN_MPI and version and of_mpirun not in joined:
        return (
            f"Open MPI {version} in {image.path.name} does not join the ranks that mpirun of Open "
            f"MPI {mpirun.version} starts: every rank would be alone (world size 1)"
        )
    return ""
