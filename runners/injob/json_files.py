"""JSON files of a run. Python 3.6, for what runs on a node's own."""

import contextlib
import json
import os


def write(path: "str", value: "object", mode: "int" = 0o666) -> None:
    """Write a file by rename, so that nobody reads half of it. Raises OSError."""
    part = f"{path}.{os.urandom(8).hex()}.part"  # processes of several nodes may write one file
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(part, path)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.remove(part)
        raise
