"""JSON files of a run. Python 3.6, for what runs on a node's own."""

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


def write(
    path: "str", value: "object", mode: "int" = 0o666, indent: "Optional[int]" = None
) -> None:
    """Write a file by rename, so that nobody reads half of it; make its folder. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{os.urandom(8).hex()}.part"  # processes of several nodes may write one file
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent)
        os.replace(part, path)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.remove(part)
        raise
