"""MPI gave up in one rank and ended all others at once, shims included: nobody left a record."""

from __future__ import annotations

import re
from dataclasses import replace

from .model import Facts, Finding, Mark, Signature
from .words import likely

GAVE_UP = Mark("*** An error occurred in MPI_", r"An error occurred in (MPI_\w+)")
# Open MPI's help texts name the component, or the function, that failed.
WHY = (Mark("Framework: "), Mark("Component: "), Mark("--> Returned "))


def mpi_aborted(facts: Facts) -> Finding | None:
    """Open MPI ended the job through PMIx, on which Slurm kills each rank."""
    line = facts.line(GAVE_UP)
    found = re.search(GAVE_UP.pattern, line.text) if line else None
    if facts.first is not None or line is None or line.rank is None or not found:
        return None
    why = [one for mark in WHY for one in facts.lines(mark) if one.rank == line.rank]
    cause = f"MPI gave up on rank {line.rank}@{line.host}, in {found[1]}, and ended all ranks"
    fix = f"runner logs --rank {line.rank} {facts.job.id}"
    because = "Open MPI says so; what it says before that is the reason"
    finding = likely(facts, cause, fix, *why[:4], line, because=because)
    return replace(finding, rank=line.rank, host=line.host)


SIGNATURES = (Signature("mpi-aborted", mpi_aborted, (GAVE_UP, *WHY)),)
