"""How an image's file lies and is mounted: its size, its squashfs, the file system that holds it.

Apptainer 1.1 and newer without a setuid part mounts by squashfuse, and where that is missing it
unpacks into a temporary folder for each `exec`, "Converting SIF file to temporary sandbox".
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..core import shell, sif
from ..core.disk_space import mount_type
from ..core.model import ImageInfo

SQUASHFS = 1  # pkg/sif/descriptor.go: the kind of a partition's file system; 5 is encrypted
SQUASHFUSE = ("squashfuse_ll", "squashfuse")
SETUID = ("APPTAINER_SUID_INSTALL", "SINGULARITY_SUID_INSTALL")
SECONDS = 10.0


def found(image: ImageInfo) -> ImageInfo:
    """Return the image with that; a folder, or what is not here yet, has none of it."""
    if not image.path.is_file():
        return image
    size, kind = image.path.stat().st_size, mount_type(image.path)
    return replace(image, size=size, offset=_offset(image.path), filesystem=kind)


def _offset(path: Path) -> int:
    """Return where the squashfs of the image's own system begins, 0 where there is none."""
    for item in sif.objects(path):
        if item.type == sif.PARTITION:
            system, kind, _ = sif.PARTITION_EXTRA.unpack_from(item.extra)
            if (system, kind) == (SQUASHFS, sif.PRIMARY_SYSTEM):
                return item.offset
    return 0


def parse_config(text: str) -> dict[str, str]:
    """Parse the lines `NAME=value` of `apptainer buildcfg`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def setuid(config: dict[str, str]) -> bool:
    """Whether the installation has a program that runs as root, by its build configuration."""
    return "1" in (config.get(name) for name in SETUID)


def tools_path(config: dict[str, str]) -> str:
    """Return the PATH on which the runtime looks for its tools: beside itself too."""
    libexec = f"{config.get('LIBEXECDIR', '')}/apptainer/bin"
    return os.pathsep.join([libexec, os.environ.get("PATH", os.defpath)])


class Mounting(NamedTuple):
    """Why an image is unpacked at each start, "" when it is not; and whether squashfuse shows it.

    Neither where root mounts it, or nobody knows.
    """

    unpacks: str = ""
    fuse: bool = False


def mounting(command: str) -> Mounting:
    """Ask the runtime how it has been built, and look for its tools."""
    done = shell.run([command, "buildcfg"], timeout=SECONDS)
    config = parse_config(done.out)
    if done.code or not any(name in config for name in SETUID) or setuid(config):
        return Mounting()
    if any(shutil.which(name, path=tools_path(config)) for name in SQUASHFUSE):
        return Mounting(fuse=True)
    return Mounting(f"this {command} has neither a setuid part nor squashfuse")
