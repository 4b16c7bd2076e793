"""A job's log: read as it grows, a piece at a time, and told apart by rank."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

PIECE = 2**20  # bytes read at once: a log of gigabytes never lies in memory
# srun's and slurmstepd's words (Slurm 22.05 to 26.05)
SAYS_END = re.compile(
    rb"srun: error: [^:\s]+: tasks? [\d,-]+: |srun: Terminating StepId=|srun: Job step aborted"
    rb"|slurmstepd\S*: error: \*\*\* STEP "
)
LABELLED = re.compile(rb"(\d+)@\S+ \| ")


class Log:
    """The job's log, read from where the last read ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def new(self) -> Iterator[list[bytes]]:
        """Yield the complete lines that have come since the last call; none before it exists.

        A line longer than PIECE comes in several.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self.offset:  # begun anew: submitted again by hand
                self.offset, self.rest = 0, b""
            file.seek(self.offset)
            while piece := file.read(PIECE):
                self.offset += len(piece)
                *lines, self.rest = (self.rest + piece).split(b"\n")
                if len(self.rest) > PIECE:
                    lines, self.rest = [*lines, self.rest], b""
                yield lines


def rank_of(line: bytes) -> int | None:
    """Return the rank that wrote a line; None for those of Slurm and of the runner."""
    match = LABELLED.match(line)
    return int(match.group(1)) if match else None


def concerns(line: bytes, ranks: Collection[int] | None) -> bool:
    """Whether a log line is of one of these ranks, or of no rank; None is all."""
    return ranks is None or (rank := rank_of(line)) is None or rank in ranks


def says_end(line: bytes) -> bool:
    """Whether Slurm says in a line that a rank has ended, or that it ends the others."""
    return SAYS_END.match(line) is not None


def last(log: Log, ranks: Collection[int] | None, count: int) -> list[bytes]:
    """Read to the log's present end; return the last `count` lines of these ranks."""
    kept = deque[bytes](maxlen=count)
    for lines in log.new():
        kept.extend(line for line in lines if concerns(line, ranks))
    return list(kept)
