"""Allreduce alone, from 1 KB to 256 MB: bytes per second of Horovod beside torch.distributed."""

from __future__ import annotations

import json

from .. import cluster
from ..report import Part, Row, compared, row
from .cases import FOLDER
from .loops import WAYS

SECONDS = 12
# Bytes, and how many times in a turn: about a tenth of a second of the fastest.
SIZES = {1_024: 200, 64 * 1_024: 100, 1 << 20: 30, 16 << 20: 4, 256 << 20: 1}


def measure() -> list[Part]:
    """Measure each size. Raises BenchError."""
    cluster.require_image()
    return [_size(size, steps) for size, steps in SIZES.items()]


def _size(size: int, steps: int) -> Part:
    wanted = {name: case.request(str(size), 2, steps) for name, case in WAYS.items()}
    words = ["--seconds", str(SECONDS), "--folder", FOLDER, "--cases", json.dumps(wanted)]
    found = cluster.login_program("turns", *words)
    return Part(f"Allreduce of {size:,} bytes, 2 ranks on one host", rows(size, found), found)


def rows(size: int, found: dict[str, list[list[float]]]) -> tuple[Row, ...]:
    """Megabytes of a rank's own data that are summed in a second."""
    speeds = {name: [size / 1e6 / turn[0] for turn in turns] for name, turns in found.items()}
    first, *others = speeds
    table = [row("torch.distributed, Gloo", speeds[first], "MB/s")]
    for name in others:
        table.append(compared(name, speeds[name], "MB/s", "torch.distributed", speeds[first], ""))
    return tuple(table)
