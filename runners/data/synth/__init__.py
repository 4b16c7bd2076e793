"""Datasets made up for trials and tests: of any size, from a seed, with classes to be learnt.

An image is its class's pattern under noise; a token mostly follows from the one before it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ...core import disk_space
from ...core.errors import Refused, UsageError
from . import cifar, imagenet, mnist, tokens
from .request import Asked

__all__ = ["KINDS", "Asked", "write"]
KINDS = {"mnist": mnist, "cifar10": cifar, "imagenet": imagenet, "tokens": tokens}
MOST_CLASSES = {"mnist": 10, "cifar10": 10}


def write(kind: str, folder: Path, asked: Asked) -> None:
    """Write a dataset into a new folder, whole or not at all.

    Raises UsageError for numbers that make no dataset, Refused where there is something already,
    SystemFault when the disk is full.
    """
    _check(kind, asked)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is there already, and not an empty folder")
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        KINDS[kind].write(part, asked)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    except OSError as error:
        raise disk_space.fault(folder, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(kind: str, asked: Asked) -> None:
    most = MOST_CLASSES.get(kind, asked.classes)
    for name, value, largest in (
        ("samples", asked.samples, None),
        ("classes", asked.classes, most),
        ("size", asked.size, None),
        ("vocabulary", asked.vocabulary, 2**32),
    ):
        if value < 1 or (largest is not None and value > largest):
            to = f" to {largest}" if largest is not None else " or more"
            raise UsageError(f"--{name} {value} must be 1{to}")
