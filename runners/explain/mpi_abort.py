"""MPI gave up in one rank and ended all others at once, shims included: nobody left a record."""

from __future__ import annotations

from dataclasses import replace

from .explanation import Finding, Signature
from .facts import Facts, LogPattern
from .finding_helpers import likely, logs_of

GAVE_UP = LogPattern("*** An error occurred in MPI_", r"An error occurred in (MPI_\w+)")
# Open MPI's help texts name the component, or the function, that failed.
WHY = (LogPattern("Framework: "), LogPattern("Component: "), LogPattern("--> Returned "))


def mpi_aborted(facts: Facts) -> Finding | None:
    """Open MPI ended the job through PMIx, on which Slurm kills each rank."""
    seen = facts.match(GAVE_UP)
    if facts.first is not None or seen is None or seen[0].rank is None:
        return None
    line, found = seen
    why = [one for each in WHY for one in facts.lines(each) if one.rank == line.rank]
    cause = f"MPI gave up on rank {line.rank}@{line.host}, in {found[1]}, and ended all ranks"
    fix = logs_of(facts, line.rank)
    because = "Open MPI says so; what it says before that is the reason"
    finding = likely(facts, cause, fix, *why[:4], line, because=because)
    return replace(finding, rank=line.rank, host=line.host)


SIGNATURES = (Signature("mpi-aborted", mpi_aborted, (GAVE_UP, *WHY)),)
