"""A job's log: reads it as it grows, filters by rank."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ..core.errors import NotFound
from ..core.files import open_regular
from ..core.job_record import Job

PIECE = 2**20  # bytes read at once: a log of gigabytes never lies in memory
# srun's and slurmstepd's words (Slurm 22.05 to 26.05)
SAYS_END = re.compile(
    rb"srun: error: [^:\s]+: tasks? [\d,-]+: |srun: Terminating StepId=|srun: Job step aborted"
    rb"|slurmstepd\S*: error: \*\*\* STEP "
)
# What frameworks write at each start, on each rank, of which nothing follows: absl, oneDNN and
# XLA through TensorFlow (TensorBoard loads it for PyTorch too), and torch's c10d.
STARTUP = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|.*oneDNN custom operations are on\. You may see slightly different numerical results"
    rb"|.*This TensorFlow binary is optimized to use available CPU instructions"
    rb"|To enable the following instructions: .* rebuild TensorFlow with"
    rb"|.*Could not find cuda drivers on your machine, GPU will not be used"
    rb"|.*Unable to register cu(FFT|DNN|BLAS) factory: Attempting to register factory for plugin"
    rb"|.*computation placer already registered"
    rb"|\[W.*socket\.cpp.*The hostname of the client socket cannot be retrieved"
)
LABELLED = re.compile(rb"(\d+)@\S+ \| ")
# As any trainer may print it: `  step 100/368  epoch 5  loss 0.1  0:04 left`.
STEP = re.compile(rb"^(?:\d+@\S+ \| )?\s*step (\d+)/(\d+)\b\s*(.*)$")


class JobLog:
    """The job's log, read from where the last read ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def new(self) -> Iterator[list[bytes]]:
        """Yield the complete lines that have come since the last call; none before it exists.

        A line longer than PIECE comes in several.
        """
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self.offset:  # truncated: submitted again by hand
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


def is_startup_noise(line: bytes) -> bool:
    """Whether a rank's line is one that its framework writes at each start, whatever happens."""
    label = LABELLED.match(line)
    return label is not None and STARTUP.match(line, label.end()) is not None


def step_of(line: bytes) -> tuple[int, int, str] | None:
    """Return how far a trainer says it is: the step, of how many, and what else it says."""
    match = STEP.match(line)
    return match and (int(match[1]), int(match[2]), match[3].decode("utf-8", "replace"))


def says_end(line: bytes) -> bool:
    """Whether Slurm says in a line that a rank has ended, or that it ends the others."""
    return SAYS_END.match(line) is not None


def so_far(log: JobLog, ranks: Collection[int] | None) -> Iterator[list[bytes]]:
    """Yield the lines of these ranks to the log's present end, also the one being written."""
    for lines in log.new():
        yield [line for line in lines if concerns(line, ranks)]
    if log.rest and concerns(log.rest, ranks):
        yield [log.rest]


def last(log: JobLog, ranks: Collection[int] | None, count: int) -> list[bytes]:
    """Read to the log's present end; return the last `count` lines of these ranks."""
    kept = deque[bytes](maxlen=count)
    for lines in log.new():
        kept.extend(line for line in lines if concerns(line, ranks))
    return list(kept)


@dataclass(frozen=True)
class SilentRanks:
    """Ranks whose lines were to be shown, and of which a whole log has none."""

    ranks: Sequence[int]


def read(
    job: Job, ranks: Collection[int] | None, tail: int | None
) -> Iterator[list[bytes] | SilentRanks]:
    """Yield a log piece by piece, the lines of these ranks, then the ranks if it has none of them.

    It begins with the last `tail` lines (None: all). Raises NotFound where there is no log yet.
    """
    log = JobLog(Path(job.log))
    if not log.path.is_file():
        what = f"job {job.id} has no log yet"
        raise NotFound(
            what, f"{job.log} does not exist", f"runner status {job.id}", id="job-log-missing"
        )
    silent = ranks is not None and tail is None
    first = [] if tail is None else [last(log, ranks, tail)]
    for lines in chain(first, so_far(log, ranks)):
        yield lines
        silent = silent and all(rank_of(line) is None for line in lines)
    if silent:
        yield SilentRanks(sorted(ranks or ()))
