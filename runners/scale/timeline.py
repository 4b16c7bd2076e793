"""How long Horovod exchanged gradients, from the timeline that it writes (--timeline-filename).

Facts (Horovod 0.28.1, horovod/common/timeline.cc, and files that it wrote): trace events of rank 0,
B and E nested for each tensor, which is a `pid`; microseconds since a start that the first event
tells in Unix time. NEGOTIATE_ALLREDUCE is from the first rank's readiness to the last one's,
ALLREDUCE from then to the result. Both may run beside computation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

START = re.compile(r'"start_time_since_epoch_in_micros":\s*(\d+)')
EVENT = re.compile(r'\{"ph": "([BE])"(?:, "name": "([^"]*)")?, "ts": (\d+), "pid": (\d+)')
MOVES, WAITS = "ALLREDUCE", "NEGOTIATE_ALLREDUCE"
CHUNK = 1 << 20  # characters: a long training's file has hundreds of megabytes, in one line


@dataclass(frozen=True)
class Exchange:
    """Seconds in which at least one tensor was moved, and those in which some only waited."""

    moving: float
    waiting: float


def read(path: Path, since: float) -> Exchange | None:
    """Return the seconds after a Unix time; None for a file that is not there or tells nothing."""
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        start = START.search(file.readline() + file.readline())
        if start is None:
            return None
        begin = (since - int(start[1]) / 1e6) * 1e6
        return _count(_events(file), begin)


def _events(file: TextIO) -> Iterator[tuple[str, str, int, str]]:
    """Yield phase, name, microsecond and tensor of each event, in the file's order."""
    rest = ""
    while chunk := file.read(CHUNK):
        rest += chunk
        end = rest.rfind("}") + 1
        for found in EVENT.finditer(rest[:end]):
            yield found[1], found[2] or "", int(found[3]), found[4]
        rest = rest[end:]


def _count(events: Iterator[tuple[str, str, int, str]], begin: float) -> Exchange:
    """Sum up the time between events by what goes on in it: moving before waiting."""
    nested: dict[str, list[str]] = {}
    active = {MOVES: 0, WAITS: 0}
    sums = {MOVES: 0.0, WAITS: 0.0}
    last = begin
    for phase, name, now, tensor in events:
        if now > last:
            what = MOVES if active[MOVES] else WAITS if active[WAITS] else ""
            if what:
                sums[what] += now - last
            last = now
        stack = nested.setdefault(tensor, [])
        if phase == "B":
            stack.append(name)
            active[name] = active.get(name, 0) + 1
        elif stack:
            active[stack.pop()] -= 1
    return Exchange(sums[MOVES] / 1e6, sums[WAITS] / 1e6)
