"""SHA-256 of files; keys, which name a result by the content of all that decides what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import SystemFault

if TYPE_CHECKING:
    import hashlib

    from .progress import Progress

BLOCK = 1 << 20


def _sha256(data: bytes = b"") -> hashlib._Hash:
    import hashlib  # with OpenSSL it takes 5 ms to load, for which a dry run need not wait

    return hashlib.sha256(data)


def sha256(file: Path, progress: Callable[[int], None] | None = None) -> str:
    """The digest of a file (hashlib.file_digest needs Python 3.11). Raises OSError.

    `progress` is called with the number of bytes read so far.
    """
    hasher, read = _sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            hasher.update(block)
            read += len(block)
            if progress:
                progress(read)
    return hasher.hexdigest()


def digest_of(path: Path, name: str, progress: Progress) -> str:
    """Return the digest of a file, "sha256:..."; raise SystemFault when it cannot be read.

    `name` is what people call it.
    """
    try:
        progress.begin(f"computing the digest of {name}", path.stat().st_size)
        return f"sha256:{sha256(path, progress=progress.at)}"
    except OSError as error:
        raise SystemFault(f"cannot read {path}", str(error), id="file-unreadable") from None


def key(**inputs: str) -> str:
    """16 hexadecimal digits that change when any input changes, its name included."""
    text = json.dumps(inputs, sort_keys=True)
    return of_text(text)[:16]


def of_text(text: str) -> str:
    """The digest of a text in UTF-8, or of a path's bytes, in hexadecimal digits."""
    return _sha256(text.encode(errors="surrogateescape")).hexdigest()


def of_bytes(data: bytes) -> str:
    """The digest of bytes as registries write it: "sha256:..."."""
    return f"sha256:{_sha256(data).hexdigest()}"


def of_files(files: Iterable[Path], base: Path) -> str:
    """One key over names (relative to `base`) and contents."""
    digests = {str(f.relative_to(base)): sha256(f) for f in files}
    return key(**digests)
