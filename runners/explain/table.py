"""Every signature, from the particular to the general: the first sure one explains a failure."""

from __future__ import annotations

from . import (
    aborted,
    container,
    ended,
    files,
    general,
    gpu,
    killed,
    libraries,
    modules,
    overwritten,
    space,
    stalled,
    training,
    world,
)
from .model import Mark, Signature

MODULES = (
    overwritten,
    container,
    stalled,
    ended,
    world,
    aborted,
    gpu,
    libraries,
    modules,
    files,
    training,
    killed,
    space,
    general,
)
SIGNATURES: tuple[Signature, ...] = tuple(one for module in MODULES for one in module.SIGNATURES)
MARKS: tuple[Mark, ...] = tuple(mark for one in SIGNATURES for mark in one.marks)
