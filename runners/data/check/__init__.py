"""Is a dataset whole: counts, sizes against headers, labels, images, checksums. Pure reading.

Each kind is one module with `fits(folder)`, whether it is one, and `check(folder, report)`.
"""

from __future__ import annotations

from pathlib import Path

from . import cifar, images, mnist, tokens
from .report import Report

__all__ = ["KINDS", "Report", "folder"]
KINDS = {"mnist": mnist, "cifar10": cifar, "tokens": tokens, "imagefolder": images}


def folder(path: Path, report: Report) -> None:
    """Find out of what kind a dataset is, and look at all of it."""
    for name, kind in KINDS.items():
        if kind.fits(path):
            report.kind = name
            kind.check(path, report)
            return
    names = sorted(p.name for p in path.iterdir())
    report.fact("entries", len(names))
