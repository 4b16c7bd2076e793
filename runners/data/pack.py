"""A folder as one squashfs file: one file to open instead of a million, mounted by the runtime.

The same folder gives the same file, byte for byte: no owners, no times of packing, one order.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from ..core import atomic, disk_space, shell
from ..core.errors import Refused, SystemFault, UsageError
from ..core.progress import Progress
from ..core.text import first_few
from . import manifest

LIBEXEC = (
    "/usr/libexec/apptainer/bin",
    "/usr/lib/x86_64-linux-gnu/apptainer/bin",
    "/usr/lib/aarch64-linux-gnu/apptainer/bin",
    "/usr/local/libexec/apptainer/bin",
)
SHOWN = 5  # names of a kind in a message; there may be thousands
# -all-root and fixed times: who packed it, and when, is no part of the data.
# Every kernel and runtime reads gzip.
PLAIN = ("-all-root", "-no-xattrs", "-noappend", "-no-progress", "-quiet", "-comp", "gzip")
# By default small files share blocks of 128 KiB, and each of them in a random order costs a whole
# one: 20,000 files of 3 kB took 16 s instead of 3.4 s to read for the first time, for 3 % of size.
RANDOM_ORDER = ("-no-fragments",)
TIMELESS = ("-mkfs-time", "0", "-all-time", "0")  # mksquashfs 4.4 and newer
MAGIC = b"hsqs"
ENDINGS = (".sqsh", ".squashfs", ".sqfs")
SUPERBLOCK = struct.Struct("<4sIIIIHHHHHHQQ")


@dataclass(frozen=True)
class Counted:
    """What a folder holds: files, folders and bytes."""

    files: int
    folders: int
    size: int


@dataclass(frozen=True)
class Packed:
    """The squashfs file, what is in it, and its own size."""

    path: Path
    content: Counted
    size: int
    sha256: str


def pack(folder: Path, output: Path, say: Progress) -> Packed:
    """Pack a folder; mksquashfs is the host's or Apptainer's.

    Raises UsageError and Refused for a folder that cannot be packed whole, each file named, and
    SystemFault when mksquashfs fails. A failure leaves nothing behind.
    """
    content = counted(folder)
    _check_output(folder, output)
    disk_space.check(output.parent, content.size, output.name)
    command = _command()
    with atomic.new_file(output) as part:
        _run(command, folder, part, content, say)
        made = manifest.of_file(part, output.name, say)
    manifest.write(manifest.DatasetManifest(output.name, {output.name: made}), output)
    return Packed(output, content, made.size, made.sha256)


def counted(folder: Path) -> Counted:
    """Count what a folder holds; raise UsageError or Refused when it cannot be packed whole."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", id="pack-not-a-folder")
    files = folders = size = 0
    unreadable: list[str] = []
    outside: list[str] = []
    root = folder.resolve()
    for path, below, names in os.walk(folder, onerror=lambda e: unreadable.append(e.filename)):
        folders += len(below)
        for name in (*names, *below):
            full = os.path.join(path, name)
            if os.path.islink(full):
                if not _inside(full, root):
                    outside.append(f"{full} -> {os.readlink(full)}")
            elif name in names and not os.access(full, os.R_OK):
                unreadable.append(full)
        files += len(names)
        size += sum(os.lstat(os.path.join(path, name)).st_size for name in names)
    what = f"{folder} has {len(unreadable)} files or folders that you cannot read"
    _refuse(unreadable, what, id="pack-unreadable")
    what = f"{folder} has {len(outside)} links that point outside or to nothing"
    _refuse(outside, what, id="pack-links-outside")
    if not files:
        raise Refused(f"{folder} is empty: there is nothing to pack", id="pack-empty")
    return Counted(files, folders, size)


def _inside(link: str, root: Path) -> bool:
    """Whether a link will work in the packed tree too: relative, to something below the root."""
    if os.path.isabs(os.readlink(link)) or not os.path.exists(link):
        return False
    return root in Path(os.path.realpath(link)).parents


def _refuse(names: list[str], message: str, id: str) -> None:
    if names:
        raise Refused(message, first_few(sorted(names), SHOWN, "\n"), id=id)


def _check_output(folder: Path, output: Path) -> None:
    if output.is_dir() or not output.parent.is_dir():
        raise UsageError(
            f"{output} cannot be a file: its folder must exist, and it must not be one itself",
            id="pack-output-impossible",
        )
    if folder.resolve() in output.resolve().parents:
        raise UsageError(
            f"{output} would be inside the folder to pack",
            remedy="-o FILE",
            id="pack-output-inside",
        )
    if not os.access(output.parent, os.W_OK):
        raise Refused(
            f"cannot write in {output.parent}",
            remedy="-o FILE, in another folder",
            id="pack-output-not-writable",
        )


def _command() -> str:
    # Apptainer brings one along.
    program = shutil.which("mksquashfs") or shutil.which(
        "mksquashfs", path=os.pathsep.join(LIBEXEC)
    )
    if program is None:
        raise Refused(
            "mksquashfs is not on this machine",
            f"neither on the PATH nor in {', '.join(LIBEXEC)}",
            "module load squashfs-tools",
            id="mksquashfs-missing",
        )
    return program


def _run(command: str, folder: Path, part: Path, content: Counted, say: Progress) -> None:
    words = [str(folder.resolve()), str(part.resolve()), *PLAIN, *RANDOM_ORDER]
    words += _timeless(command, say)
    say.begin(f"packing {folder}", content.size)

    def tick() -> None:
        say.at(part.stat().st_size if part.exists() else 0)

    # mksquashfs takes the times from there or from its options, not from both.
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = shell.watch([command, *words], tick, env)
    if done.code == 0:
        return
    if re.search("no space left|disk quota", done.out, re.IGNORECASE):
        raise disk_space.full(part.parent, done.out)
    raise SystemFault(
        f"mksquashfs could not pack {folder}", done.out.strip()[-2000:], id="pack-failed"
    )


def _timeless(command: str, say: Progress) -> tuple[str, ...]:
    """Return the options for fixed times, none for a mksquashfs that is older than they are."""
    answer = shell.run([command, "-version"])
    version = re.search(r"version (\d+)\.(\d+)", answer.out)
    if version is None:
        words = answer.err.strip() or answer.out.strip()
        raise Refused(f"{command} does not run", words, id="mksquashfs-broken")
    if (int(version[1]), int(version[2])) >= (4, 4):
        return TIMELESS
    say.say("this mksquashfs is older than 4.4: packing the same folder again gives another file")
    return ()


def require_whole_squashfs(path: Path) -> None:
    """Raise Refused for a file that is no squashfs file, or a truncated one."""
    try:
        with path.open("rb") as file:
            head = file.read(SUPERBLOCK.size)
        length = path.stat().st_size
    except OSError as error:
        raise Refused(
            f"cannot read {path}", str(error.strerror), id="squashfs-unreadable"
        ) from None
    if head[:4] != MAGIC:
        start = head[:4].hex(" ") or "nothing"
        raise Refused(
            f"{path} is not a squashfs file",
            f"it begins with {start}, not with {MAGIC.hex(' ')} (hsqs)",
            "runner data pack DIR",
            id="squashfs-malformed",
        )
    if len(head) < SUPERBLOCK.size:
        raise Refused(
            f"{path} is truncated",
            f"it has {length} bytes",
            "copy it again",
            id="squashfs-truncated",
        )
    size = int(SUPERBLOCK.unpack(head)[12])
    if length < size:
        raise Refused(
            f"{path} is truncated",
            f"{length} of {size} bytes are there",
            "copy it again",
            id="squashfs-truncated",
        )
