"""The job's secret: a file that only its owner can read, in the run's folder, which all ranks see.

Who holds it belongs to the job. It never travels: both sides prove that they know it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import time

NAME = ".rendezvous-secret"
LENGTH = 32  # bytes
PATIENCE = 10.0  # seconds for another task to write what it has begun


def of_run(run_dir: str) -> bytes:
    """Return the run's secret; the first task to ask makes it. Raises OSError."""
    path = os.path.join(run_dir, NAME)
    with contextlib.suppress(FileExistsError):  # another task was faster: it is everybody's
        # O_EXCL: only one of all tasks on all nodes makes it, on NFS too.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(LENGTH))
    return _read(path)


def _read(path: str) -> bytes:
    """Read the file once it is whole."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with open(path, "rb") as file:
            found = file.read()
        if len(found) == LENGTH:
            return found
        if time.monotonic() > deadline:
            raise OSError(f"{path} is no secret of {LENGTH} bytes: remove it")
        time.sleep(0.05)


def proof(secret: bytes, *parts: bytes) -> bytes:
    """Return 32 bytes that only a holder of the secret can make from these parts."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


def same(one: bytes, other: bytes) -> bool:
    """Compare proofs in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
