"""Messages about ranks that were lost, or did not come: of srun, mpirun, PALS and Horovod."""

from __future__ import annotations

import contextlib
import re
import signal
from itertools import chain, islice

from ..contract.rank_command import parse_ranks

MOST_RANKS = 2**17  # that one line tells of: any program may write such a line
# Horovod's stall inspector (0.28, stall_inspector.cc), after HOROVOD_STALL_CHECK_TIME_SECONDS, 60:
# `Missing ranks:`, then a line for each, `1: [gradient.weight, ...]`, as a rank writes it or with
# the rank's label before it in the log.
MISSING_RANKS = "Missing ranks:"
MISSING_RANK = r"^\s*(\d+): \[(.*)\]\s*$"
LABELLED_MISSING_RANK = re.compile(r"^(?:\d+@\S+ \| )?\s*(\d+): \[(.*)\]\s*$")
LOST = (
    # `srun: error: n2: task 3: Killed`, or `tasks 1-3: Exited with exit code 1`
    r"^srun: error: (?P<host>[^:\s]+): tasks? (?P<ranks>[\d,-]+): (?P<how>.+)$",
    # Open MPI 4 and 5: `mpirun noticed that process rank 3 with PID 0 on node n2 exited on ...`
    r"^(?:mpirun|prterun) noticed that process rank (?P<ranks>\d+) with PID \d+ on node "
    r"(?P<host>\S+) (?P<how>exited .+?)\.?$",
    # PALS on Cray systems: `x3004c0s13b0n0.hsn.cm.example: rank 3 died from signal 9`
    r"^(?P<host>[\w.-]+): rank (?P<ranks>\d+) (?P<how>(?:died from|exited with) .+)$",
)


def lost_ranks(line: str) -> tuple[list[int], str, str] | None:
    """Return the ranks that a line tells of, their host and how they ended; None if it does not."""
    for match in filter(None, (re.search(form, line) for form in LOST)):
        with contextlib.suppress(ValueError):
            ranks = chain.from_iterable(parse_ranks(match["ranks"]) or ())
            return [*islice(ranks, MOST_RANKS)], match["host"], match["how"]
    return None


def exit_code(how: str) -> int | None:
    """Return the exit code that such words stand for, 128 + N for signal N; None for others."""
    for form, base in ((r"\bexit code (\d+)", 0), (r"\bsignal (\d+)", 128)):
        if match := re.search(form, how):
            return base + int(match[1])
    words = how.partition(" (")[0]  # Segmentation fault (core dumped)
    if words == "Out Of Memory":
        return 128 + signal.SIGKILL
    numbers = (number for number in signal.valid_signals() if signal.strsignal(number) == words)
    return next((128 + number for number in numbers), None)
