"""Horovod's released archive as an edited source tree, and the variables that it compiles with."""

from __future__ import annotations

import platform
import shutil
import tarfile
from collections.abc import Collection
from pathlib import Path

from runners.core import machine
from runners.core.errors import SystemFault

from .horovod import edits
from .horovod.edit import EditError

# As in compile.sh: with F16C and FMA, without which Adasum refuses fp16.
FLAGS = {"x86_64": "-march=x86-64-v3 -mtune=generic"}
BYTES_EACH = 2_500_000_000  # of memory, for a compiler of one of the two large sources
FRAMEWORKS = ("PYTORCH", "TENSORFLOW", "MXNET")


def unpack(archives: Path, tree: Path) -> None:
    """Unpack the archive, whose hash was checked when it was fetched, and edit it. SystemFault."""
    (archive,) = archives.glob("horovod-*.tar.gz")
    top = tree.with_name("unpacked")
    with tarfile.open(archive) as file:
        file.extractall(top)  # noqa: S202  its hash is in the lock
    (unpacked,) = top.iterdir()
    shutil.move(str(unpacked), tree)
    try:
        edits.edit(tree)
    except EditError as error:
        raise SystemFault(str(error), id="horovod-source-differs") from None


def variables(frameworks: Collection[str], mpi: bool) -> dict[str, str]:
    """Return what Horovod's build is told: frameworks, controllers, compilers at a time."""
    parts = {**{name: name in frameworks for name in FRAMEWORKS}, "GLOO": True, "MPI": mpi}
    return {
        **{f"HOROVOD_{'WITH' if part else 'WITHOUT'}_{name}": "1" for name, part in parts.items()},
        "HOROVOD_BUILD_ARCH_FLAGS": FLAGS.get(platform.machine(), "-mtune=generic"),
        "MAKEFLAGS": f"-j{machine.at_once(BYTES_EACH)}",
    }
