"""The part of a run's folder that only its owner can read: values of --env, a server's token."""

from __future__ import annotations

from pathlib import Path

from ..contract.run_files import TOKEN
from ..core import atomic
from ..core.errors import Refused
from ..core.job_record import JobPaths

OTHERS = 0o077  # rights of the group and of everybody


def make(paths: JobPaths) -> None:
    """Make the folder with a new token in it; raise Refused where others could read it."""
    import secrets  # and with it OpenSSL, for which a launch without a token need not wait

    write(paths, TOKEN, secrets.token_urlsafe(32))
    for path in (paths.private, paths.private / TOKEN):
        mode = path.stat().st_mode & 0o777
        if mode & OTHERS:
            raise Refused(
                f"others could read the token in {path}",
                f"its rights are {mode:o}, although it was made for its owner alone",
                "--runs-dir DIR, on a file system that keeps rights",
                id="token-folder-open",
            )


def write(paths: JobPaths, name: str, text: str) -> Path:
    """Write a file that only its owner can read, in the folder, which is made if need be."""
    paths.private.mkdir(mode=0o700, exist_ok=True)
    atomic.write_text(paths.private / name, text, private=True)
    return paths.private / name
