"""One rank and several on one node: each with a mount of its own, one for all, or a folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Callable

from .. import plain
from ..report import Part
from ..rounds import interleaved
from . import packing, start
from .forms import FOLDER, PLAIN, chosen
from .packing import Shelf
from .start import Way

COUNTS, ROUNDS = (1, 2, 4), 3
AIM = "<= 1.15"  # of several ranks on a node; one has start.AIM
MODULES = ("torch", "tensorflow")
FILE, MOUNT = "file", "one mount"

Case = Callable[[], float]


def measure() -> list[Part]:
    """Measure. Raises BenchError, Skipped."""
    found, environment = packing.shelf(), plain.environment(plain.image_plan())
    packing.require(found, (chosen(),))
    parts = []
    for what in MODULES:
        interleaved(cases(found, environment, what, 1), 1)  # into memory
        for count in COUNTS:
            title = f"import {what}, ranks on one node: {count}, warm"
            tried = cases(found, environment, what, count)
            parts.append(part(title, tried, start.AIM if count == 1 else AIM))
    return parts


def cases(found: Shelf, environment: Path, what: str, count: int) -> dict[str, Case]:
    """All ranks at once, in each way; the mount for all is a fresh one."""
    file, way = found.packed(chosen()), Way(count)
    in_container = functools.partial(start.in_container, what=what)
    return {
        PLAIN: functools.partial(start.in_environment, environment, what, way),
        FILE: functools.partial(in_container, file, way=way),
        MOUNT: functools.partial(in_container, file, way=Way(count, (f"--mount={file}",))),
        FOLDER: functools.partial(in_container, found.tree, way=way),
    }


def part(title: str, tried: dict[str, Case], aim: str) -> Part:
    """Measure the cases in turns."""
    measured = interleaved(tried, ROUNDS)
    return Part(title, start.against(PLAIN, measured, aim), dict(measured))
