"""From the shared file system onto this node's disk, by this one process: looked at, room, copied.

Several files at a time: on a shared file system each of them costs a few waits, and little else.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from .node import DATA, IMAGE, NotStaged, kind

AT_A_TIME = 8
SPARE = 64 * 2**20  # bytes that stay free, for what else the job writes there
# Where there are too few inodes for many files, one file may do.
PACKED = {
    DATA: "runner data pack, which packs them into one file",
    IMAGE: "--stage-image node-local",
}
BLOCK = 4096  # what the smallest file takes on a disk


def listed(source: "str") -> "tuple[list[str], dict[str, int]]":
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


def room(path: "str", sizes: "list[int]") -> None:
    """Raise NotStaged unless files of these sizes fit beside `path` in the job's folder."""
    folder = os.path.dirname(path)
    disk = os.statvfs(folder)
    needed = sum(-(-size // BLOCK) * BLOCK for size in sizes) + SPARE
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise NotStaged(
            f"no space in {os.path.dirname(folder)}: {shown(needed)} needed, {shown(free)} free; "
            f"try: --stage-{kind(path)} none"
        )
    if disk.f_files and disk.f_favail < len(sizes):
        raise NotStaged(
            f"no inodes in {os.path.dirname(folder)}: {len(sizes)} needed, {disk.f_favail} free; "
            f"try: {PACKED[kind(path)]}"
        )


def copy(folder: "str", entry: "str", source: "str") -> "tuple[int, int, bool]":
    """Copy `source`, a file or a folder, to `folder`/`entry`; return files, bytes, and False.

    A file that was sent there before, whole, is taken, and True returned. Raises NotStaged; what is
    half copied goes with the folder.
    """
    folders, files = listed(source)
    target = os.path.join(folder, entry)
    if os.path.isfile(target) and os.path.getsize(target) == files.get(""):
        return 1, files[""], True
    room(target, list(files.values()))
    if "" not in files:
        os.mkdir(target)
    for name in folders:
        os.mkdir(os.path.join(target, name))
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        # After a failure what has not begun need not be: `map` cancels it.
        for _ in pool.map(lambda name: _one(source, target, name, files[name]), files):
            pass
    return len(files), sum(files.values()), False


def _one(source: "str", target: "str", name: "str", size: "int") -> None:
    origin = os.path.join(source, name) if name else source
    copied = os.path.join(target, name) if name else target
    try:
        shutil.copyfile(origin, copied)
    except OSError as error:
        raise NotStaged(f"cannot copy {origin}: {error.strerror}") from None
    copied_size = os.stat(copied).st_size
    if copied_size != size:
        raise NotStaged(f"{origin} changed meanwhile: {size}, then {copied_size} bytes")


def shown(size: "float") -> "str":
    """Return bytes in words, in powers of 1000 as disks are sold."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return "{:.{}f} {}".format(size, 0 if unit == "bytes" else 1, unit)
        size /= 1000
    return f"{size:.1f} TB"
