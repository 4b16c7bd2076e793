"""The job's secret: a file that only its owner can read, in the run's folder, which all ranks see.

Who holds it belongs to the job. It never travels: both sides prove that they know it.
"""

from __future__ import annotations

import hashlib
import hmac
import os

NAME = ".rendezvous-secret"
LENGTH = 32  # bytes


def of_run(run_dir: str) -> bytes:
    """Return the run's secret; the first task to ask makes it. Raises OSError."""
    path = os.path.join(run_dir, NAME)
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _make(path: str) -> None:
    """Make the file in one step; whoever comes second finds the first one's."""
    part = f"{path}.{os.uname().nodename}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(LENGTH))
    try:
        # Unlike rename, a link fails where the name is taken, on NFS too.
        os.link(part, path)
    except FileExistsError:
        pass  # another task was faster, and its secret is everybody's
    finally:
        os.unlink(part)


def proof(secret: bytes, *parts: bytes) -> bytes:
    """Return 32 bytes that only a holder of the secret can make from these parts."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


def same(one: bytes, other: bytes) -> bool:
    """Compare proofs in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
