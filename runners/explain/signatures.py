"""Every signature, from the particular to the general: the first sure one explains a failure."""

from __future__ import annotations

from . import (
    aborted,
    container,
    disk_full,
    ended_by_slurm,
    files,
    general,
    gpu,
    image_overwritten,
    imports,
    libraries,
    signals,
    stalled,
    training,
    world,
)
from .model import Mark, Signature

MODULES = (
    image_overwritten,
    container,
    stalled,
    ended_by_slurm,
    world,
    aborted,
    gpu,
    libraries,
    imports,
    files,
    training,
    signals,
    disk_full,
    general,
)
SIGNATURES: tuple[Signature, ...] = tuple(one for module in MODULES for one in module.SIGNATURES)
MARKS: tuple[Mark, ...] = tuple(mark for one in SIGNATURES for mark in one.marks)
