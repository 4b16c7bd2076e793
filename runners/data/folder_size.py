"""How much a dataset is: bytes and files, counted for a short while only."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from ..core.model import Dataset

SECONDS = 3.0  # on a busy file system a large dataset takes minutes, which a launch has not
FILES = 200_000


def measured(dataset: Dataset, seconds: float = SECONDS) -> Dataset:
    """Return it with `size` and `files`; with `at_least` where counting was given up."""
    if dataset.squashfs:
        return replace(dataset, size=dataset.path.stat().st_size, files=1)
    size = files = 0
    deadline = time.monotonic() + seconds
    for folder, _, names in os.walk(dataset.path, followlinks=True):
        for name in names:
            files += 1
            try:
                size += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # a dangling link; `runner data check` names it
                continue
            if files >= FILES or time.monotonic() > deadline:
                return replace(dataset, size=size, files=files, at_least=True)
    return replace(dataset, size=size, files=files)
