"""The host's MPI in the image: where its libraries are, and the check before the job proper."""

from __future__ import annotations

from pathlib import Path

from .mpicheck import EXIT_HOST_MPI

__all__ = ["CHECK", "EXIT_HOST_MPI"]
CHECK = Path(__file__).parent / "mpicheck"  # a package that goes into the run's folder
