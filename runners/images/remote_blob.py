"""A blob of a registry as a file: read here and there, or from end to end over a bad line."""

from __future__ import annotations

import io
import time
from http.client import HTTPException, HTTPResponse
from typing import BinaryIO, cast

from containers import sif

from ..core.errors import Refused, RunnerError, SystemFault
from .registry import Blob, Registry

PARTIAL = 206
WAITS = (0.0, 1.0, 3.0)  # seconds before each try to go on
PAGE = 1 << 16  # a SIF's table of contents has 28 kB


class RemoteFile(io.RawIOBase):
    """Reads by HTTP range (RFC 9110, 14.2); raises a RunnerError."""

    def __init__(self, registry: Registry, blob: Blob) -> None:
        self.registry, self.blob, self.position = registry, blob, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move within the blob."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.blob.size}[whence]
        self.position = base + offset
        return self.position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer from here on."""
        last = min(self.position + len(buffer), self.blob.size) - 1
        if last < self.position:
            return 0
        with self.registry.blob(self.blob, f"{self.position}-{last}") as answer:
            if answer.status != PARTIAL:
                raise SystemFault(
                    f"{self.registry.reference.registry} does not send parts of files"
                )
            data = answer.read(last - self.position + 1)
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


class Stream:
    """Reads from start to end; goes on where it was when the connection ends, a few times.

    The digest is checked in the end, so that parts of two answers may follow each other.
    """

    def __init__(self, registry: Registry, blob: Blob) -> None:
        self.registry, self.blob, self.position = registry, blob, 0
        self.answer: HTTPResponse | None = None

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end.

        Raises OSError when it cannot go on, and a RunnerError when it cannot even begin.
        """
        for seconds in WAITS:
            time.sleep(seconds)
            try:
                data = self._read(size)
                if data or self.position == self.blob.size:
                    return data
                why = "the connection ended"
            except (OSError, HTTPException) as error:
                why = str(error) or type(error).__name__
            except RunnerError as error:
                if not self.position:
                    raise
                why = error.message
            self.answer = None
        raise OSError(why)

    def _read(self, size: int) -> bytes:
        if self.answer is None:
            self.registry.secret = ""  # a token may have become too old
            wanted = f"{self.position}-{self.blob.size - 1}" if self.position else ""
            self.answer = self.registry.blob(self.blob, wanted)
            if self.position and self.answer.status != PARTIAL:
                raise OSError("the registry cannot go on in the middle")
        data = self.answer.read(size)
        self.position += len(data)
        return data


def labels(registry: Registry, blob: Blob) -> dict[str, str]:
    """Return the labels of a SIF in a registry, from a few of its pages."""
    with io.BufferedReader(RemoteFile(registry, blob), PAGE) as file:
        try:
            return sif.labels_in(cast(BinaryIO, file)) or {}
        except (sif.SifError, ValueError) as error:
            raise Refused(f"{registry.reference.source} is no SIF", str(error)) from None
