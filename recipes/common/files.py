"""Files that others read whole appear by write-then-rename: nobody ever reads half of one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True)
class Sum:
    """What tells a whole file, or folder, from a damaged one: its SHA-256 and its length."""

    sha256: str
    bytes: int

    @classmethod
    def of_file(cls, path: Path) -> Sum:
        total, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
                size += len(block)
        return cls(total.hexdigest(), size)

    @classmethod
    def of_folder(cls, files: Mapping[str, Sum]) -> Sum:
        """Return the sum of a folder, of those of its files."""
        listed = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
        size = sum(each.bytes for each in files.values())
        return cls(hashlib.sha256(listed.encode()).hexdigest(), size)


class Hashed:
    """A stream for writing that computes the SHA-256 and the length of what goes through it.

    `problem` is the system's error, which torch.save (2.13) hides behind one of its own.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.sha256, self.bytes = stream, hashlib.sha256(), 0
        self.problem: OSError | None = None

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.bytes += memoryview(data).nbytes
        try:
            return self.stream.write(data)
        except OSError as error:
            self.problem = error
            raise

    def flush(self) -> None:
        self.stream.flush()


def write_atomically(path: Path, write: Callable[[Any], object]) -> Sum:
    """Let `write` fill a file beside `path`, then give it its name in one step.

    Returns its sum. Raises OSError, and leaves nothing then.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            stream = Hashed(file)
            _fill(stream, write)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Sum(stream.sha256.hexdigest(), stream.bytes)


def _fill(stream: Hashed, write: Callable[[Any], object]) -> None:
    try:
        write(stream)
    except Exception:
        if stream.problem is not None:
            raise stream.problem from None
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, whole or not at all; raise ValueError for what is not finite."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda out: out.write(text.encode()))
