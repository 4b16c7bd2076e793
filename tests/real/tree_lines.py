"""Prints a tree as lines to compare: python3 tree_lines.py FOLDER, as root of its namespace.

Each line has the type, mode, owner, content or link of a file. Left out is what Apptainer or Podman
adds to each image, and what a build writes that differs each time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys

THEIRS = (".singularity.d", ".exec", ".run", ".shell", ".test", "environment", "singularity")
BOUND = ("dev", "proc", "run", "sys", "etc/hosts", "etc/resolv.conf", "etc/mtab", "etc/hostname")


def line(folder: str, path: str) -> str:
    """Return what is compared of one file."""
    found = os.lstat(os.path.join(folder, path))
    said = f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid} /{path}"
    if stat.S_ISLNK(found.st_mode):
        return f"{said} -> {os.readlink(os.path.join(folder, path))}"
    if stat.S_ISREG(found.st_mode):
        with open(os.path.join(folder, path), "rb") as file:
            return f"{said} {hashlib.sha256(file.read()).hexdigest()[:16]}"
    return said


def main(folder: str) -> None:
    for parent, folders, files in os.walk(folder):
        inside = os.path.relpath(parent, folder)
        names = [os.path.normpath(os.path.join(inside, name)) for name in (*folders, *files)]
        kept = [name for name in names if name not in THEIRS and name not in BOUND]
        folders[:] = [n for n in folders if os.path.normpath(os.path.join(inside, n)) in kept]
        for name in kept:
            print(line(folder, name))


if __name__ == "__main__":
    main(sys.argv[1])
