"""A blob of a registry as a file that is read here and there, without downloading it."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from containers import sif

from ..errors import Refused, SystemFault
from .registry import Blob, Registry

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
            if answer.status != 206:
                raise SystemFault(
                    f"{self.registry.reference.registry} does not send parts of files"
                )
            data = answer.read(last - self.position + 1)
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


def labels(registry: Registry, blob: Blob) -> dict[str, str]:
    """Return the labels of a SIF in a registry, from a few of its pages."""
    with io.BufferedReader(RemoteFile(registry, blob), PAGE) as file:
        try:
            return sif.labels_in(cast(BinaryIO, file)) or {}
        except (sif.SifError, ValueError) as error:
            raise Refused(f"{registry.reference.source} is no SIF", str(error)) from None
