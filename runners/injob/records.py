"""How a job writes the files that `runner` reads. Python 3.6, for what runs on a node's own."""

import contextlib
import json
import os

from ..contract.run_files import RESULT


def write_json(
    path: "str", value: "object", mode: "int" = 0o666, indent: "int | None" = None
) -> None:
    """Write a file by rename: no reader sees half of it. Raises OSError."""
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


def keep(run_dir: "str", name: "str", value: "object", in_result: "str" = "") -> None:
    """Write a file if that is possible; with `in_result`, put its value into result.json too."""
    path = os.path.join(run_dir, RESULT)
    with contextlib.suppress(OSError, ValueError):  # a full disk; a result of another form
        write_json(os.path.join(run_dir, name), value)
        if in_result and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            if isinstance(result, dict):
                write_json(path, {**result, in_result: value}, indent=2)


def forget(run_dir: "str", name: "str") -> None:
    """Remove a file that an earlier start of the job has left."""
    with contextlib.suppress(OSError):
        os.remove(os.path.join(run_dir, name))
