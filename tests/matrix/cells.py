"""The cells of the matrix: what is combined with what. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

RELEASES = {"bookworm": "22.05", "trixie": "24.11", "unstable": "26.05"}  # Debian's: its Slurm's
IMAGES = {
    "openmpi4": "Open MPI 4.1, PMIx 4",
    "openmpi5": "Open MPI 5, PMIx 5",
    "mpich": "MPICH 5, PMI-2",
    "nompi": "no MPI",
}
CONTROLLERS = ("mpi", "gloo")
TYPES = ("pmix", "pmi2", "none")
LAUNCHERS = ("srun", "mpirun", "horovodrun")
NODES, PER_NODE = 2, 2
RANKS = NODES * PER_NODE


@dataclass(frozen=True)
class Cell:
    """One combination; `mpi` is srun's --mpi=."""

    release: str
    image: str
    controller: str
    mpi: str
    launcher: str

    @property
    def name(self) -> str:
        """Its name, which is also that of its job."""
        return "-".join((self.release, self.image, self.controller, self.mpi, self.launcher))

    def options(self, image: str) -> list[str]:
        """The options of `runner` that ask for it; `image` is a path."""
        given = {
            "image": image,
            "nodes": NODES,
            "ntasks-per-node": PER_NODE,
            "cpus-per-task": 1,
            "controller": self.controller,
            "mpi": self.mpi,
            "launcher": self.launcher,
            "job-name": self.name,
        }
        return [f"--{name}={value}" for name, value in given.items()]


def cells(releases: Sequence[str] = tuple(RELEASES)) -> list[Cell]:
    """All cells of these releases."""
    return [Cell(*words) for words in product(releases, IMAGES, CONTROLLERS, TYPES, LAUNCHERS)]


def named(name: str) -> Cell:
    """The cell of that name."""
    return Cell(*name.split("-"))
