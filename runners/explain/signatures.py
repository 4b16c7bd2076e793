"""Every signature, from the particular to the general: the first sure one explains a failure."""

from __future__ import annotations

from . import (
    container,
    disk_full,
    ended_by_slurm,
    file_errors,
    imports,
    known_errors,
    known_worlds,
    libraries,
    rendezvous,
    signals,
    stalled,
    training,
    unrecognised,
)
from .explanation import Signature
from .facts import LogPattern

MODULES = (
    container,
    stalled,
    ended_by_slurm,
    rendezvous,
    known_worlds,
    known_errors,
    libraries,
    imports,
    file_errors,
    training,
    signals,
    disk_full,
    unrecognised,
)
SIGNATURES: tuple[Signature, ...] = tuple(one for module in MODULES for one in module.SIGNATURES)
PATTERNS: tuple[LogPattern, ...] = tuple(each for one in SIGNATURES for each in one.patterns)
