"""A staged image: is it the file that was allowed, and its files as a folder, without root."""

import hashlib
import os
import re

from . import copying, node
from .node import NotStaged, NotTheSame

# Beside the PATH: where Apptainer and Singularity keep or look for it.
ELSEWHERE = ("/usr/sbin", "/sbin", "/usr/local/bin", "/usr/libexec/apptainer/bin")
ENTRY = re.compile(r"([-dlbcps])[-rwxsStT]{9} \S+ +(\d+|\d+, *\d+) ")
# A process without root cannot make devices, nor set what belongs to root; unsquashfs ends with 2
# (from 4.5 on), and a container has its own /dev.
DONE = (0, 2)
CHUNK = 1 << 20


def verify(folder: "str", entry: "str", digest: "str") -> None:
    """Raise NotTheSame unless the file has this SHA-256, in hex."""
    total = hashlib.sha256()
    with open(os.path.join(folder, entry), "rb") as content:
        for part in iter(lambda: content.read(CHUNK), b""):
            total.update(part)
    if total.hexdigest() != digest:
        raise NotTheSame("it is no longer the file that was launched")


def unpack(file: "str", offset: "str", folder: "str") -> "tuple[int, int]":
    """Unpack the squashfs that begins at `offset`, remove the file; return files and bytes.

    Raises NotStaged. Files belong to the user then, as they would in a container without root.
    """
    program = found()
    executable(os.path.dirname(folder))
    sizes = listed(said([program, "-lln", "-o", offset, file]))
    copying.room(folder, sizes)
    said([program, "-q", "-n", "-no-xattrs", "-o", offset, "-d", folder, file])
    os.unlink(file)
    return len(sizes), sum(sizes)


def executable(folder: "str") -> None:
    """Raise NotStaged where no program can run; a mount within a container inherits that."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise NotStaged(
            f"no program can run in {os.path.dirname(folder)}, which is mounted noexec; "
            "try: --stage-image node-local"
        )


def found() -> "str":
    """Return where a safe unsquashfs is; raise NotStaged."""
    program = node.find("unsquashfs", ELSEWHERE, "; try: --stage-image node-local")
    _, version = node.run([program, "-version"])
    danger = node.unsafe_unsquashfs(version)
    if danger:
        raise NotStaged(f"{danger}; try: --stage-image node-local")
    return program


def listed(text: "str") -> "list[int]":
    """Return the size in bytes of each entry in a long listing of unsquashfs."""
    entries = filter(None, map(ENTRY.match, text.splitlines()))
    return [int(each.group(2)) if each.group(1) == "-" else 0 for each in entries]


def said(argv: "list[str]") -> "str":
    """Run it; return its output. Raises NotStaged with its last words."""
    code, text = node.run(argv)
    if code not in DONE:
        raise NotStaged(f"cannot unpack it: {node.last_line(text, f'exit code {code}')}")
    return text
