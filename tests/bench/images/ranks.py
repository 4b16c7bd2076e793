"""Several ranks on one node, each with a mount of its own, or with one for all of them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Callable

from .. import plain
from ..report import Part, Row, compared, row
from ..rounds import interleaved
from . import packing, start
from .forms import FOLDER, PLAIN, chosen, zstd
from .packing import Shelf
from .start import Way

COUNT, ROUNDS = 4, 2
AIM = "<= 1.15"  # of several ranks on a node; one has start.AIM
BOUND = Way(options=("--cpu=0",))
MODULES = ("torch", "tensorflow")

FORMS = (zstd(9, "128K"), chosen())

Case = Callable[[], float]


def measure() -> list[Part]:
    """Measure. Raises BenchError, Skipped."""
    found, environment = packing.shelf(), plain.environment(plain.image_plan())
    packing.require(found, FORMS)
    parts = []
    for what in MODULES:
        many = {**outside(environment, what, Way(COUNT)), **together(found, what)}
        one = {**outside(environment, what, BOUND), **bound(found, what)}
        interleaved(one, 1)  # into memory, for both
        parts.append(part(f"import {what}, 1 rank bound to one CPU, warm", one, start.AIM))
        parts.append(part(f"import {what}, {COUNT} ranks on one node, warm", many, AIM))
    return parts


def images(found: Shelf) -> dict[str, str]:
    """What is tried here."""
    return {FOLDER: found.tree, **{form.name: found.packed(form) for form in FORMS}}


def outside(environment: Path, what: str, way: Way) -> dict[str, Case]:
    """The case that all others are compared with."""
    return {PLAIN: functools.partial(start.in_environment, environment, what, way)}


def inside(image: str, what: str, way: Way) -> Case:
    """One case in containers."""
    return functools.partial(start.in_container, image, what, way)


def bound(found: Shelf, what: str) -> dict[str, Case]:
    """One rank on one CPU, with what serves it its files: so does srun with --cpus-per-task=1."""
    return {name: inside(image, what, BOUND) for name, image in images(found).items()}


def together(found: Shelf, what: str) -> dict[str, Case]:
    """All ranks at once: each with a mount of its own, and with a fresh one for all."""
    every = {name: inside(image, what, Way(COUNT)) for name, image in images(found).items()}
    for form in FORMS:
        image = found.packed(form)
        every[f"{form.name}, one mount"] = inside(image, what, Way(COUNT, (f"--mount={image}",)))
    return every


def part(title: str, cases: dict[str, Case], aim: str) -> Part:
    """Measure the cases in turns."""
    measured = interleaved(cases, ROUNDS)
    return Part(title, table(measured, aim), dict(measured))


def table(measured: dict[str, list[float]], aim: str) -> tuple[Row, ...]:
    """A line for each case, against the plain environment."""
    reference = measured[PLAIN]
    return tuple(
        row(name, took, "s") if name == PLAIN else compared(name, took, "s", PLAIN, reference, aim)
        for name, took in measured.items()
    )
