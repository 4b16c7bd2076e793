"""Files: the disk is full, a quota is used up, a file is missing, forbidden or read-only."""

from __future__ import annotations

import os
import re
from shlex import quote

from ..core.remedy import Remedy, change, command
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, Line
from .findings import RANK_REPORTS, before, certain, likely, who
from .fixes import edit, on_node
from .path_owners import owner_of

# The kernel's words for ENOSPC, EDQUOT, ..., as Python, C++ and the shell print them
FULL = "No space left on device"
QUOTA = "Disk quota exceeded"
SHARED_MEMORY = re.compile(r"insufficient shared memory|unable to (?:write|allocate).*shm|/dev/shm")
MISSING = re.compile(r"(?:No such file or directory|NotADirectoryError: .*): '([^']+)'")
# In an author's own words
SAID_MISSING = re.compile(
    r"FileNotFoundError: (?=.*(?:not exist|not found|[Mm]issing|No such))"
    r".*?[\s'\"(=](/[^\s'\",:]*[^\s'\",:.)])"
)
PATH = re.compile(r"'(/[^']*)'")


def _search(facts: Facts, words: str) -> tuple[Line, ...] | None:
    """Return the line that has the words, none for the first rank's last error itself.

    It is an error from which that one came; None where there is none.
    """
    if words in facts.error:
        return ()
    return next(((line,) for line in reversed(before(facts)) if words in line.text), None)


def full_disk(facts: Facts) -> Explanation | None:
    lines = _search(facts, FULL)
    if lines is None:
        return None
    if SHARED_MEMORY.search(facts.error):
        cause = "the node's shared memory (/dev/shm) is full: the data loader's workers use it"
        return certain(facts, cause, on_node(facts, "df", "-h", "/dev/shm"), *lines)
    texts = [facts.error, *(line.text for line in lines)]
    path = next((found[1] for found in map(PATH.search, texts) if found), "")
    cause = f"no space left on the device where {who(facts)} writes"
    cause += f": {path}" if path else ", which the error does not name"
    fix = _elsewhere(facts, on_node(facts, "df", "-h", path or facts.paths.root))
    if path:
        return certain(facts, cause, fix, *lines)
    return likely(facts, cause, fix, *lines, because=f"{RANK_REPORTS}, but not on which disk")


def quota(facts: Facts) -> Explanation | None:
    """The user, or the project, has no more space or files, though the disk has."""
    lines = _search(facts, QUOTA)
    if lines is None:
        return None
    path = PATH.search(facts.error)
    cause = f"your quota on the file system is used up, where {who(facts)} writes"
    cause += f" {path[1]}" if path else ""
    return certain(facts, cause, _elsewhere(facts, command("quota", "-s")), *lines)


def _elsewhere(facts: Facts, check: Remedy) -> Remedy:
    """Return the check of the disk; if the run's own folder was full, then a launch elsewhere."""
    path = PATH.search(facts.error)
    if path and not path[1].startswith(str(facts.paths.root)):
        return check
    return change(runs_dir=f"{facts.scratch or 'FOLDER'}/runs", first=check.text)


def missing_file(facts: Facts) -> Explanation | None:
    """A file is not there; in a container it may only not be bound."""
    by_python = MISSING.search(facts.error)
    match = by_python or SAID_MISSING.search(facts.error)
    if not match:
        return None
    path = match[1]
    folder, fix, note = os.path.dirname(path), edit(facts), ""
    cause = f"{who(facts)} opens {path}, which does not exist "
    cause += "in the container" if facts.has_image else "on the node"
    if owner := owner_of(path):
        return likely(
            facts, f"{cause}: {owner}", fix, because=f"{RANK_REPORTS}, not who removed it"
        )
    if facts.has_image and (path + "/").startswith("/data/"):
        fix, note = change(data="FOLDER"), "; --data binds it there"
    elif facts.has_image and path.startswith("/") and folder != "/":
        cause += "; the container shows only its own files, your home and what is bound"
        fix = change(bind=folder, first=f"ls -l {quote(path)}")
        note = "; if it is on the node, bind its folder"
    if by_python:
        return certain(facts, cause, fix, note=note)
    return likely(facts, cause, fix, because=f"the script's own words name it{note}")


SIGNATURES = (
    Signature("quota", quota, Precedence.FILE),
    Signature("disk-full", full_disk, Precedence.FILE + 10),
    Signature("file-missing", missing_file, Precedence.FILE + 30),
)
