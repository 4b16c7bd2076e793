"""One mount of the image's own file system for all ranks of a node, who enter it as a folder.

Apptainer without a setuid part mounts the file for each rank, and what the kernel has cached of
one mount is of no use to another. Where Slurm has no control groups its signals reach all processes
of a step; `hold` blocks them, which a new process inherits, so that the ranks can still save.
"""

import os
import shutil
import subprocess
import time

from ..processes import end_with
from . import node
from .node import IMAGE, NotStaged, say

MOUNT = ".image.mount"
LOG = ".image.log"
PROGRAM, UNMOUNTS = "squashfuse_ll", ("fusermount3", "fusermount")
SECONDS = 60.0


def serve(folder: "str", entry: "str", file: "str", offset: "str", runtime: "str") -> None:
    """Mount it; then `folder`/`entry` is a link to the mount, or to the file where there is none.

    It lives as long as this process. A setuid Apptainer may not look into another user's mount, and
    a node may have no /dev/fuse: so the runtime is tried before the ranks are.
    """
    began, target = time.time(), os.path.join(folder, MOUNT)
    try:
        _mount(folder, file, offset, runtime, target)
        _enter(runtime, target)
        say(IMAGE, f"mounted once for its ranks, {time.time() - began:.1f} s")
    except (NotStaged, OSError) as error:
        say(IMAGE, f"not mounted, each rank mounts it itself: {error}")
        release(folder)
        target = file
    os.symlink(target, os.path.join(folder, entry))


def wait_for(folder: "str", entry: "str") -> None:
    """Wait until `serve` has done its part; raise NotStaged when it does not."""
    deadline = time.time() + 3 * SECONDS
    while not os.path.lexists(os.path.join(folder, entry)):
        if time.time() > deadline or not os.path.isdir(folder):
            raise NotStaged("it was not mounted; try: --stage-image none")
        time.sleep(0.01)


def release(folder: "str") -> None:
    """Take the mount away, be it in use or left by a process that was killed."""
    if os.path.isdir(folder) and MOUNT in os.listdir(folder):
        program = next(filter(None, map(shutil.which, UNMOUNTS)), "")
        if program:
            node.run([program, "-u", "-z", os.path.join(folder, MOUNT)], SECONDS)


def _mount(folder: "str", file: "str", offset: "str", runtime: "str", target: "str") -> None:
    """Start what serves it, and wait until it does. Raises NotStaged.

    With auto_unmount another process takes the mount away should this one be killed.
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
    return node.find(PROGRAM, [tools])


def _enter(runtime: "str", target: "str") -> None:
    code, text = node.run([runtime, "exec", target, "true"], SECONDS)
    if code:
        raise NotStaged(node.last_line(text, f"{runtime} exec: exit code {code}"))
