"""Verifies a staged image, and makes a folder of it, unpacked or mounted. It needs no root.

The image is mounted once on each node for all its ranks, which enter it as a folder: Apptainer
without a setuid part mounts the file for each rank, and what the kernel has cached of one mount is
of no use to another. Where Slurm has no control groups its signals reach all processes of a step;
`hold` blocks them, which a new process inherits, so that the ranks can still save.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time

from ...contract.unsquashfs import unsafe_unsquashfs
from ..processes import end_with
from . import node
from .node import IMAGE, NotStaged, NotTheSame, say

# Beside the PATH: where Apptainer and Singularity keep or look for it.
ELSEWHERE = ("/usr/sbin", "/sbin", "/usr/local/bin", "/usr/libexec/apptainer/bin")
ENTRY = re.compile(r"([-dlbcps])[-rwxsStT]{9} \S+ +(\d+|\d+, *\d+) ")
# A process without root cannot make devices, nor set what belongs to root; unsquashfs ends with 2
# (from 4.5 on), and a container has its own /dev.
DONE = (0, 2)
CHUNK = 1 << 20
MOUNT = ".image.mount"
LOG = ".image.log"
PROGRAM, UNMOUNTS = "squashfuse_ll", ("fusermount3", "fusermount")
SECONDS = 60.0


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
    program = safe_unsquashfs()
    executable(os.path.dirname(folder))
    sizes = sizes_listed(output_of([program, "-lln", "-o", offset, file]))
    node.require_room(folder, sizes)
    output_of([program, "-q", "-n", "-no-xattrs", "-o", offset, "-d", folder, file])
    os.unlink(file)
    return len(sizes), sum(sizes)


def executable(folder: "str") -> None:
    """Raise NotStaged where the folder is mounted noexec, which a container inherits."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise NotStaged(
            f"no program can run in {os.path.dirname(folder)}, which is mounted noexec; "
            "try: --stage-image node-local"
        )


def safe_unsquashfs() -> "str":
    """Return where a safe unsquashfs is; raise NotStaged."""
    program = node.find_program("unsquashfs", ELSEWHERE, "; try: --stage-image node-local")
    _, version = node.run_program([program, "-version"])
    danger = unsafe_unsquashfs(version)
    if danger:
        raise NotStaged(f"{danger}; try: --stage-image node-local")
    return program


def sizes_listed(text: "str") -> "list[int]":
    """Return the size in bytes of each entry in a long listing of unsquashfs."""
    entries = filter(None, map(ENTRY.match, text.splitlines()))
    return [int(entry.group(2)) if entry.group(1) == "-" else 0 for entry in entries]


def output_of(argv: "list[str]") -> "str":
    """Run a program; return its output. Raises NotStaged with its last line."""
    code, text = node.run_program(argv)
    if code not in DONE:
        raise NotStaged(f"cannot unpack it: {node.last_line(text, f'exit code {code}')}")
    return text


def mount(folder: "str", entry: "str", file: "str", offset: "str", runtime: "str") -> None:
    """Mount the image; make `folder`/`entry` a link to the mount, or else to the file.

    The mount lives as long as this process. A setuid Apptainer may not look into another user's
    mount, and a node may have no /dev/fuse: so the runtime is tried before the ranks are.
    """
    began, target = time.time(), os.path.join(folder, MOUNT)
    try:
        _start_mount(folder, file, offset, runtime, target)
        _enter(runtime, target)
        say(IMAGE, f"mounted once for its ranks, {time.time() - began:.1f} s")
    except (NotStaged, OSError) as error:
        say(IMAGE, f"not mounted, each rank mounts it itself: {error}")
        unmount(folder)
        target = file
    os.symlink(target, os.path.join(folder, entry))


def wait_for_mount(folder: "str", entry: "str") -> None:
    """Wait until `mount` has done its part; raise NotStaged when it does not."""
    deadline = time.time() + 3 * SECONDS
    while not os.path.lexists(os.path.join(folder, entry)):
        if time.time() > deadline or not os.path.isdir(folder):
            raise NotStaged("it was not mounted; try: --stage-image none")
        time.sleep(0.01)


def unmount(folder: "str") -> None:
    """Unmount the image, also one that is in use or that a killed process has left."""
    if os.path.isdir(folder) and MOUNT in os.listdir(folder):
        program = next(filter(None, map(shutil.which, UNMOUNTS)), "")
        if program:
            node.run_program([program, "-u", "-z", os.path.join(folder, MOUNT)], SECONDS)


def _start_mount(folder: "str", file: "str", offset: "str", runtime: "str", target: "str") -> None:
    """Start squashfuse, and wait until it has mounted the image. Raises NotStaged.

    With auto_unmount another process unmounts it when this one is killed.
    """
    argv = [_program(runtime), "-f", "-o", f"ro,auto_unmount,offset={offset}", file, target]
    os.mkdir(target, 0o700)
    words, own = os.path.join(folder, LOG), os.getpid()
    with open(words, "wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=lambda: end_with(own)
        )
    deadline = time.time() + SECONDS
    while not os.path.ismount(target):
        if process.poll() is not None:
            with open(words, errors="replace") as log_text:
                raise NotStaged(node.last_line(log_text.read(), f"{PROGRAM} ended"))
        if time.time() > deadline:
            process.kill()
            raise NotStaged(f"{PROGRAM} did not mount it in {SECONDS:.0f} s")
        time.sleep(0.01)


def _program(runtime: "str") -> "str":
    """Return where squashfuse_ll is: on the PATH, or where Apptainer's packages keep theirs."""
    beside = os.path.realpath(shutil.which(runtime) or "/usr/bin/" + runtime)
    tools = os.path.join(os.path.dirname(os.path.dirname(beside)), "libexec", runtime, "bin")
    return node.find_program(PROGRAM, [tools])


def _enter(runtime: "str", target: "str") -> None:
    code, text = node.run_program([runtime, "exec", target, "true"], SECONDS)
    if code:
        raise NotStaged(node.last_line(text, f"{runtime} exec: exit code {code}"))
