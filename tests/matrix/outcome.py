"""What really happened to a job, from its exit code and its log. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .cells import NODES, RANKS

WORLD = "one world"
ONE_NODE = "all ranks on one node"
ALONE = "alone, stopped"
NO_WORLD = "fails in init, stopped"
NO_MPI = "built without MPI"
UNKNOWN_MPI = "horovodrun does not know it"
NO_TYPE = "srun refuses"
SILENT = "SILENT SINGLETONS"
HANG = "HANGS"
OTHER = "fails otherwise"

LINE = re.compile(r"world size=(\d+) rank=(\d+) local=\d+ host=(\S+) sum=(\d+)")
TIME_LIMIT, TIMED_OUT, WORLD_SIZE = 83, 124, 82
# Ranked: what is said first in this list is the cause of what follows.
SIGNS = (
    (r"Invalid MPI type|Couldn't find the specified plugin name for mpi", NO_TYPE),
    (r"MPI support has not been built", NO_MPI),
    (r"Unknown MPI implementation given", UNKNOWN_MPI),
    (r"world-size mismatch on rank", ALONE),
    (r"no process group on rank", NO_WORLD),
)


@dataclass(frozen=True)
class Outcome:
    """One of the kinds above, the line that shows it, and the seconds it took."""

    kind: str
    evidence: str
    seconds: float


def classify(code: int, log: str, seconds: float) -> Outcome:
    """What a job with this exit code and log was."""
    if code in (TIME_LIMIT, TIMED_OUT):
        return Outcome(HANG, last_line(log), seconds)
    if code == 0:
        return Outcome(_of_success(log), last_line(log), seconds)
    for pattern, kind in SIGNS:
        match = re.search(f".*(?:{pattern}).*", log)
        if match:
            return Outcome(kind, match.group().strip(), seconds)
    return Outcome(OTHER, f"exit code {code}: {last_line(log)}", seconds)


def _of_success(log: str) -> str:
    """Exit code 0: one world over all nodes, one on too few of them, or no world at all."""
    lines = LINE.findall(log)
    ranks = {int(rank) for _, rank, _, _ in lines}
    total = RANKS * (RANKS + 1) // 2  # each adds its rank + 1
    right = {(int(size), int(found)) for size, _, _, found in lines} == {(RANKS, total)}
    if not right or ranks != set(range(RANKS)) or len(lines) != RANKS:
        return SILENT
    return WORLD if len({host for _, _, host, _ in lines}) == NODES else ONE_NODE


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
