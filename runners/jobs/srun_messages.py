"""Which rank was lost, from the words of who started it: for ranks that left no record."""

from __future__ import annotations

import re
import signal

FORMS = (
    # `srun: error: n2: task 3: Killed`, or `tasks 1-3: Exited with exit code 1`
    r"^srun: error: (?P<host>[^:\s]+): tasks? (?P<ranks>[\d,-]+): (?P<how>.+)$",
    # Open MPI 4 and 5: `mpirun noticed that process rank 3 with PID 0 on node n2 exited on ...`
    r"^(?:mpirun|prterun) noticed that process rank (?P<ranks>\d+) with PID \d+ on node "
    r"(?P<host>\S+) (?P<how>exited .+?)\.?$",
    # PALS on Cray systems: `x3004c0s13b0n0.hsn.cm.example: rank 3 died from signal 9`
    r"^(?P<host>[\w.-]+): rank (?P<ranks>\d+) (?P<how>(?:died from|exited with) .+)$",
)


def parse(line: str) -> tuple[list[int], str, str] | None:
    """Return the ranks that a line tells of, their host and how they ended; None if it does not."""
    for form in FORMS:
        found = re.search(form, line)
        if found:
            return _ranks(found["ranks"]), found["host"], found["how"]
    return None


def code(how: str) -> int | None:
    """Return the exit code that such words stand for, 128 + N for signal N; None for others."""
    for form, base in ((r"\bexit code (\d+)", 0), (r"\bsignal (\d+)", 128)):
        if found := re.search(form, how):
            return base + int(found[1])
    words = how.partition(" (")[0]  # Segmentation fault (core dumped)
    if words == "Out Of Memory":
        return 128 + signal.SIGKILL
    numbers = (number for number in signal.valid_signals() if signal.strsignal(number) == words)
    return next((128 + number for number in numbers), None)


def _ranks(text: str) -> list[int]:
    """Read `3`, `1-3` or `0,2-4`."""
    ranks: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks
