"""Finds programs and room on the node's disk, copies files there, and records failures.

Several files are copied at a time: on a shared file system each takes mostly waiting.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

from ...contract import failure_kinds as kinds
from ...contract import run_files
from ...contract.exit_codes import EXIT_NOT_STAGED, EXIT_NOT_VERIFIED
from ...contract.failure_kinds import FailureKind
from ...contract.log_text import human_size
from .. import records

DATA, IMAGE = "data", "image"
# The image's names begin so, which no dataset's does.
IMAGE_PREFIX = ".image"
COPIES_AT_A_TIME = 8
SPARE_BYTES = 64 * 2**20  # bytes that stay free, for what else the job writes there
# Where there are too few inodes for many files, one file may do.
INSTEAD_OF_MANY_FILES = {
    DATA: "runner data pack, which packs them into one file",
    IMAGE: "--stage-image node-local",
}
BLOCK = 4096  # what the smallest file takes on a disk


class NotStaged(Exception):
    """The data or the image is not on the node's disk; the message is for the user."""

    code = EXIT_NOT_STAGED


class NotTheSame(NotStaged):
    """The image is not the file that was launched."""

    code = EXIT_NOT_VERIFIED


def kind(entry: "str") -> "str":
    """Return whether an entry of the job's folder is the image or data, as in --stage-image."""
    return IMAGE if os.path.basename(entry).startswith(IMAGE_PREFIX) else DATA


def host() -> "str":
    """Return this node's name as Slurm has it: without its domain."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def say(staged: "str", text: "str") -> None:
    print(f"runner: {staged} on {host()}: {text}", file=sys.stderr, flush=True)


def record_failure(staged: "str", message: "str", code: "int") -> None:
    """Print a failure, and in a job write its record beside those of failed ranks."""
    say(staged, message)
    above = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    if os.path.basename(above) != "code":
        return  # not a copy in a run's folder
    path = run_files.failure_path(os.path.dirname(above), f"{staged}-{host()}")
    which = FailureKind.IMAGE_CHANGED if code == EXIT_NOT_VERIFIED else FailureKind.NOT_STAGED
    facts = {"version": kinds.VERSION, "kind": which, "rank": None, "size": None, "host": host()}
    facts.update(exit_code=code, message=message, time=time.time(), what=staged)
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    records.write_json(path, facts)


def find_program(name: "str", folders: "Sequence[str]", advice: "str" = "") -> "str":
    """Return where a program is: on the PATH, or in these folders. Raises NotStaged."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    program = shutil.which(name, path=path)
    if program is None:
        raise NotStaged(f"there is no {name} here{advice}")
    return program


def run_program(argv: "list[str]", seconds: "Optional[float]" = None) -> "tuple[int, str]":
    """Run a program; return its exit code and its output."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 1, f"{argv[0]} took more than {seconds:.0f} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_line(text: "str", otherwise: "str") -> "str":
    """Return the last line that a program wrote; `otherwise` if it wrote nothing."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [otherwise])[-1]


def files_below(source: "str") -> "tuple[list[str], dict[str, int]]":
    """Return the folders below `source`, and the size in bytes of each file, by relative path.

    Links are followed; for a file as `source` the only path is "".
    """
    if not os.path.isdir(source):
        return [], {"": _size(source)}
    folders, files = [], {}
    for path, below, names in os.walk(source, onerror=_unreadable, followlinks=True):
        folders += [os.path.relpath(os.path.join(path, name), source) for name in sorted(below)]
        for name in names:
            file = os.path.join(path, name)
            files[os.path.relpath(file, source)] = _size(file)
    return folders, files


def _size(path: "str") -> "int":
    try:
        return os.stat(path).st_size
    except OSError as error:
        _unreadable(error)
    raise AssertionError


def _unreadable(error: "OSError") -> None:
    raise NotStaged(f"cannot read {error.filename}: {error.strerror}")


def require_room(path: "str", sizes: "list[int]") -> None:
    """Raise NotStaged unless files of these sizes fit beside `path`."""
    folder = os.path.dirname(path)
    disk = os.statvfs(folder)
    needed = sum(-(-size // BLOCK) * BLOCK for size in sizes) + SPARE_BYTES
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise NotStaged(
            f"no space in {os.path.dirname(folder)}: {human_size(needed)} needed, "
            f"{human_size(free)} free; try: --stage-{kind(path)} none"
        )
    if disk.f_files and disk.f_favail < len(sizes):
        raise NotStaged(
            f"no inodes in {os.path.dirname(folder)}: {len(sizes)} needed, {disk.f_favail} free; "
            f"try: {INSTEAD_OF_MANY_FILES[kind(path)]}"
        )


def copy(folder: "str", entry: "str", source: "str") -> "tuple[int, int, bool]":
    """Copy `source`, a file or a folder, to `folder`/`entry`; return files, bytes, and False.

    A file that sbcast has sent there in full is left as it is, and True returned. Raises NotStaged;
    half a copy goes with the folder.
    """
    folders, files = files_below(source)
    target = os.path.join(folder, entry)
    if os.path.isfile(target) and os.path.getsize(target) == files.get(""):
        return 1, files[""], True
    require_room(target, list(files.values()))
    if "" not in files:
        os.mkdir(target)
    for name in folders:
        os.mkdir(os.path.join(target, name))
    with ThreadPoolExecutor(COPIES_AT_A_TIME) as pool:
        # After a failure what has not begun need not be: `map` cancels it.
        for _ in pool.map(lambda name: _copy_file(source, target, name, files[name]), files):
            pass
    return len(files), sum(files.values()), False


def _copy_file(source: "str", target: "str", name: "str", size: "int") -> None:
    origin = os.path.join(source, name) if name else source
    copied = os.path.join(target, name) if name else target
    try:
        shutil.copyfile(origin, copied)
    except OSError as error:
        raise NotStaged(f"cannot copy {origin}: {error.strerror}") from None
    copied_size = os.stat(copied).st_size
    if copied_size != size:
        raise NotStaged(f"{origin} changed meanwhile: {size}, then {copied_size} bytes")
