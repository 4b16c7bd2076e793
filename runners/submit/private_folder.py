"""The part of a run's folder that only its owner can read: values of --env, a token, addresses."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import atomic, files
from ..core.errors import Refused, SystemFault
from ..core.job_record import JobPaths
from ..injob.serve import ADDRESS, TOKEN

ACCESS = "access.txt"
OTHERS = 0o077  # rights of the group and of everybody


@dataclass(frozen=True)
class Address:
    """Where a session answers: the node's name, the address there, the port, the page to open."""

    host: str
    address: str
    port: int
    page: str
    loopback: bool


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
            )


def token(paths: JobPaths) -> str:
    """Return the token of a session; raise SystemFault when it cannot be read."""
    try:
        return (paths.private / TOKEN).read_text(encoding="ascii")
    except OSError as error:
        raise SystemFault(f"cannot read {paths.private / TOKEN}", str(error)) from None


def address(paths: JobPaths) -> Address | None:
    """Return where the session answers; None before it does, and after its end."""
    facts = files.read_json(paths.private / ADDRESS)
    return Address(**facts) if facts else None


def keep(paths: JobPaths, text: str) -> str:
    """Write down how to get there, for its owner alone; return the file's path."""
    write(paths, ACCESS, text)
    return str(paths.private / ACCESS)


def write(paths: JobPaths, name: str, text: str) -> None:
    """Write a file that only its owner can read, in the folder, which is made if need be."""
    paths.private.mkdir(mode=0o700, exist_ok=True)
    atomic.write_text(paths.private / name, text, private=True)
