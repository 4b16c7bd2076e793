"""Whether an image's MPI joins the world of what starts it: its PMI, srun's --mpi=, the mpirun.

The rules are those that the matrix proves cell by cell (tests/matrix).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.model import ImageInfo


@dataclass(frozen=True)
class Pmi:
    """What an MPI speaks to who starts it: its name, srun's --mpi= and mpiruns that offer it."""

    name: str
    srun: str
    mpiruns: tuple[str, ...]


# Slurm's pmi2 plugin also understands PMI-1, the older wire protocol of MPICH.
SPOKEN = {  # by what a label pmi.client says
    "pmix": Pmi("PMIx", "pmix", ("openmpi",)),
    "pmi2": Pmi("PMI-2", "pmi2", ("mpich", "intelmpi")),
    "pmi1": Pmi("PMI-1", "pmi2", ("mpich", "intelmpi")),
}
# Open MPI in the image: the generations of mpirun whose worlds it joins, beside its own.
JOINS = {"4": ("6",), "5": ("4", "6")}
NONE = "none"  # without any MPI


def client(image: ImageInfo) -> str:
    """Return what the image's MPI speaks, a key of SPOKEN; NONE without MPI, "" if unknown."""
    known = image.fact("pmi.client")
    if known:
        return known
    flavour = image.fact("mpi.flavour")
    if flavour == "openmpi":
        return "pmix" if image.fact("pmix.version") not in ("", "none") else ""
    if flavour in ("mpich", "intelmpi"):
        return "pmi2"
    return NONE if image.fact("mpi.version") == "none" else ""


def name_of(kind: str, otherwise: str) -> str:
    """Return PMIx for pmix, of which srun may have several (pmix_v5); `otherwise` if unknown."""
    known = SPOKEN.get(kind.partition("_")[0])
    return known.name if known else otherwise


def against_srun(image: ImageInfo, mpi: str) -> str:
    """Say why the image's MPI joins no world of `srun --mpi=MPI`, "" if it does or is unknown."""
    spoken = SPOKEN.get(client(image))
    if spoken is None or mpi.partition("_")[0] == spoken.srun:
        return ""
    offers = "no PMI" if mpi == "none" else name_of(mpi, mpi)
    return (
        f"the MPI in {image.path.name} speaks {spoken.name}, and srun --mpi={mpi} offers "
        f"{offers}: every rank would be alone (world size 1)"
    )


def against_mpirun(image: ImageInfo, mpirun: str) -> str:
    """Say the same of the world of an mpirun, such as "openmpi 5.0.7"."""
    flavour, _, version = mpirun.partition(" ")
    spoken = SPOKEN.get(client(image))
    if spoken is None:
        return ""
    if flavour not in spoken.mpiruns:
        offers = next(pmi.name for pmi in SPOKEN.values() if flavour in pmi.mpiruns)
        return (
            f"the MPI in {image.path.name} speaks {spoken.name}, and this machine's mpirun "
            f"({mpirun}) offers {offers}: every rank would be alone (world size 1)"
        )
    own = image.fact("mpi.version")
    generation = own.partition(".")[0]
    joined = (generation, *JOINS.get(generation, ()))
    if flavour == "openmpi" and own and version.partition(".")[0] not in joined:
        return (
            f"Open MPI {own} in {image.path.name} does not join the ranks that mpirun of Open MPI "
            f"{version} starts: every rank would be alone (world size 1)"
        )
    return ""
