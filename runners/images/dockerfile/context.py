"""What COPY may take: files below the folder of the Dockerfile, and nothing that links lead to.

Docker copies a link as a link. Apptainer's %files copies what it leads to, which may be a private
file of whoever builds the image.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def first_outside(context: Path, paths: list[str]) -> str:
    """Return the first of `paths`, or of what is below them, that is not in the context, or ""."""
    root = os.path.realpath(context)
    for path in paths:
        for each in _with_all_below(path):
            real = os.path.realpath(each)
            if os.path.commonpath([root, real]) != root:
                return f"{os.path.relpath(each, context)} is {real}"
    return ""


def _with_all_below(path: str) -> Iterator[str]:
    yield path
    for folder, folders, files in os.walk(path):
        yield from (os.path.join(folder, name) for name in (*folders, *files))
