"""Files: the disk is full, a quota is used up, a file is missing, forbidden or read-only."""

from __future__ import annotations

import os
import re
from shlex import quote

from ..core.remedy import Remedy, change, command
from ..core.remedy import line as typed_line
from .explanation import Finding, Signature
from .facts import Facts, Line
from .finding_helpers import FETCH, ITSELF, before, certain, edit, host, likely, who

# The kernel's words for ENOSPC, EDQUOT, ..., as Python, C++ and the shell print them
FULL = re.compile(r"No space left on device")
QUOTA = re.compile(r"Disk quota exceeded")
SHARED_MEMORY = re.compile(r"insufficient shared memory|unable to (?:write|allocate).*shm|/dev/shm")
READ_ONLY = re.compile(r"Read-only file system(?:: '([^']+)')?")
FORBIDDEN = re.compile(r"Permission denied(?:: '([^']+)')?")
MISSING = re.compile(r"No such file or directory: '([^']+)'|NotADirectoryError: .*: '([^']+)'")
# The packaged trainers' words for data that is not there
NO_DATA = re.compile(
    r"error: (?:on rank [^:]+: )?(.*(?:the data folder \S+ does not exist|no MNIST in|no CIFAR|"
    r"cannot read the (?:data|tokens) in|incomplete MNIST|no .* in /data|no tokens in).*)"
)
PATH = re.compile(r"'(/[^']*)'")


def _search(facts: Facts, pattern: re.Pattern[str]) -> tuple[re.Match[str], Line | None] | None:
    """Return where the first rank's last error says it, or the error from which that one came."""
    found = pattern.search(facts.error)
    if found:
        return found, None
    for line in reversed(before(facts)):
        found = pattern.search(line.text)
        if found:
            return found, line
    return None


def full_disk(facts: Facts) -> Finding | None:
    """A file system is full."""
    found = _search(facts, FULL)
    if found is None:
        return None
    path = PATH.search(facts.error) or (PATH.search(found[1].text) if found[1] else None)
    if SHARED_MEMORY.search(facts.error):
        cause = "the node's shared memory (/dev/shm) is full: the data loader's workers share it"
        return certain(
            facts, cause, command("srun", "-w", host(facts), "df", "-h", "/dev/shm"), *_line(found)
        )
    where = path[1] if path else str(facts.paths.root)
    cause = f"no space left on the device where {who(facts)} writes"
    cause += f": {path[1]}" if path else ", which the error does not name"
    return _disk(
        facts, cause, command("srun", "-w", host(facts), "df", "-h", where), found, bool(path)
    )


def quota(facts: Facts) -> Finding | None:
    """The user, or the project, has no more space or files, though the disk has."""
    found = _search(facts, QUOTA)
    if found is None:
        return None
    path = PATH.search(facts.error)
    cause = "your quota on the file system is used up"
    cause += f", where {who(facts)} writes {path[1]}" if path else f", where {who(facts)} writes"
    return _disk(facts, cause, command("quota", "-s"), found, True)


def _disk(
    facts: Facts, cause: str, check: Remedy, found: tuple[re.Match[str], Line | None], named: bool
) -> Finding:
    """Look at the disk, then launch elsewhere if it was the run's own folder that was full."""
    root = str(facts.paths.root)
    path = PATH.search(facts.error)
    ours = path is None or path[1].startswith(root)
    elsewhere = f"{facts.scratch or 'FOLDER'}/runs"
    fix = change(runs_dir=elsewhere, first=check.text) if ours else check
    if named:
        return certain(facts, cause, fix, *_line(found))
    return likely(facts, cause, fix, *_line(found), because=f"{ITSELF}, but not on which disk")


def _line(found: tuple[re.Match[str], Line | None]) -> tuple[Line, ...]:
    return (found[1],) if found[1] else ()


def data_missing(facts: Facts) -> Finding | None:
    """The trainer found no data where it looked."""
    found = NO_DATA.search(facts.error)
    if not found:
        return None
    cause = f"there is no data that the trainer can use: {found[1]}"
    if data := facts.job.typed.text("data"):
        return certain(facts, cause, command("runner", "data", "check", data.rpartition("=")[2]))
    name = next((name for name in ("mnist", "cifar10") if name[:5] in found[1].lower()), "")
    fetch = change(data=name, first=f"runner data fetch {name}") if name else FETCH
    return certain(facts, cause, fetch)


def file_missing(facts: Facts) -> Finding | None:
    """A file that the trainer opens is not there, or not in the container."""
    found = MISSING.search(facts.error)
    if not found:
        return None
    path = found[1] or found[2]
    cause = f"{who(facts)} opens {path}, which is not there in the container"
    if path.startswith("/data/") or path == "/data":
        return certain(
            facts, cause, change(data="FOLDER"), because=f"{ITSELF}; --data brings it there"
        )
    folder = os.path.dirname(path)
    if folder in ("", "/") or not path.startswith("/"):
        return certain(facts, cause, edit(facts))
    cause += "; the container shows only its own files, your home and what is bound"
    fix = change(bind=folder, first=f"ls -l {quote(path)}")
    return certain(facts, cause, fix, because=f"{ITSELF}; if it is on the node, bind its folder")


def read_only(facts: Facts) -> Finding | None:
    """The trainer writes into the image, or into data, which are read-only."""
    found = READ_ONLY.search(facts.error)
    if not found:
        return None
    where = f" to {found[1]}" if found[1] else ""
    cause = (
        f"{who(facts)} writes{where}, which is read-only: an image cannot be written to; "
        "OUTPUT_DIR is the folder for what a trainer writes"
    )
    return certain(facts, cause, edit(facts))


def forbidden(facts: Facts) -> Finding | None:
    """The user may not read or write that."""
    found = FORBIDDEN.search(facts.error)
    if not found:
        return None
    path = found[1]
    cause = f"{who(facts)} may not open {path or 'a file'}: permission denied"
    if path is None:
        return certain(facts, cause, edit(facts))
    look = typed_line(f"ls -ld {quote(path)} {quote(os.path.dirname(path))}; id")
    return certain(facts, cause, look)


SIGNATURES = (
    Signature("quota", quota),
    Signature("disk-full", full_disk),
    Signature("data-missing", data_missing),
    Signature("file-missing", file_missing),
    Signature("read-only", read_only),
    Signature("permission-denied", forbidden),
)
