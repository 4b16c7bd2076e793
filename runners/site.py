"""Asks this machine, once, what it offers."""

from __future__ import annotations

import os
import shutil

from . import shell
from .images import machine
from .model import Site
from .rank.gpu import driver_version


def probe() -> Site:
    """Return what is here: Slurm with its MPI types, and a container runtime.

    `srun --mpi=list` only lists plugin files; it does not call the controller.
    """
    has_slurm = shutil.which("sbatch") is not None
    types = parse_mpi_list(shell.run(["srun", "--mpi=list"])) if has_slurm else ()
    return Site(has_slurm, types, _runtime(), driver_version(), _glibc(), machine.architecture())


def _glibc() -> str:
    """Return 2.36 of "glibc 2.36"; empty with another C library."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return version if name == "glibc" else ""


def _runtime() -> str | None:
    for name in ("apptainer", "singularity"):
        if shutil.which(name):
            return name
    return None


def parse_mpi_list(answer: shell.Result) -> tuple[str, ...]:
    """Return the types that `srun --mpi=list` prints, such as none, pmi2, pmix and pmix_v5.

    Slurm 22.05 to 26.05 print a heading, one indented type a line, and a line of pmix versions.
    """
    types: list[str] = []
    for line in (answer.out + answer.err).splitlines():
        if line.startswith(("\t", " ")):
            types.append(line.strip())
        elif line.startswith("specific pmix plugin versions available:"):
            types += [version.strip() for version in line.split(":", 1)[1].split(",")]
    return tuple(types)
