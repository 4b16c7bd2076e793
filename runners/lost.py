"""Which rank was lost, from the words of who started it: for ranks that left no record."""

from __future__ import annotations

import re

FORMS = (
    # `srun: error: n2: task 3: Killed`, or `tasks 1-3: Exited with exit code 1`
    r"^srun: error: (?P<host>[^:\s]+): tasks? (?P<ranks>[\d,-]+): (?P<how>.+)$",
    # Open MPI 4 and 5: `mpirun noticed that process rank 3 with PID 0 on node n2 exited on ...`
    r"^(?:mpirun|prterun) noticed that process rank (?P<ranks>\d+) with PID \d+ on node "
    r"(?P<host>\S+) (?P<how>exited .+?)\.?$",
    # PALS on Cray systems: `x3004c0s13b0n0.hsn.cm.example: rank 3 died from signal 9`
    r"^(?P<host>[\w.-]+): rank (?P<ranks>\d+) (?P<how>(?:died from|exited with) .+)$",
)


def task(log: str) -> str | None:
    """Return `rank@host: how` of the first rank that is named, None when there is none."""
    found = [re.search(form, log, re.MULTILINE) for form in FORMS]
    first = min((m for m in found if m), key=lambda match: match.start(), default=None)
    return f"{first['ranks']}@{first['host']}: {first['how']}" if first else None
