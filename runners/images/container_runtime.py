"""Apptainer or Singularity on this machine: pulls by it, and how it mounts an image's file.

spython 0.3.14 would run the same commands, but always `singularity`, with its output between ours
and without telling why one failed.

Apptainer 1.1 and newer without a setuid part mounts by squashfuse, and where that is missing it
unpacks into a temporary folder for each `exec`, "Converting SIF file to temporary sandbox".
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..core import disk_space, shell, sif
from ..core.errors import Refused, SystemFault
from ..core.model import ImageInfo
from ..core.progress import Progress
from ..registry.reference import Reference

FATAL = re.compile(r"^(?:FATAL|ERROR):\s+(.+)$", re.MULTILINE | re.DOTALL)
SQUASHFS = 1  # pkg/sif/descriptor.go: the kind of a partition's file system; 5 is encrypted
SQUASHFUSE = ("squashfuse_ll", "squashfuse")
SETUID = ("APPTAINER_SUID_INSTALL", "SINGULARITY_SUID_INSTALL")
SECONDS = 10.0


def command() -> str:
    """Return the runtime's path; raise Refused when this machine has none."""
    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        raise Refused(
            "there is no container runtime on this machine",
            "neither apptainer nor singularity is on the PATH",
            "module load apptainer",
            id="container-runtime-missing",
        )
    return runtime


def pull(reference: Reference, arch: str, plain: bool, part: Path, progress: Progress) -> None:
    """Let the runtime make the SIF `part` of an image, with its temporary files beside it.

    Nothing goes through its cache: the stored file is the cache.
    """
    argv = [command(), "pull", "--disable-cache", "--arch", arch, str(part), reference.text]
    env, prefix = dict(os.environ), Path(argv[0]).name.upper()
    if plain:
        env[f"{prefix}_NOHTTPS"] = "true"
    env.setdefault(f"{prefix}_TMPDIR", str(part.parent))
    # containers/image, the library in the runtime, has a folder for large files of its own.
    env.setdefault("TMPDIR", str(part.parent))
    progress.begin(f"pulling {reference.source}")
    done = shell.watch(argv, lambda: progress.at(part.stat().st_size if part.exists() else 0), env)
    if done.code:
        raise fault(reference.source, done.out, part.parent)


def fault(name: str, output: str, work: Path) -> SystemFault:
    """Return the error that the runtime's output tells of."""
    fatal = FATAL.search(output)
    words = (fatal.group(1) if fatal else output).strip()
    if re.search("no space left on device|disk quota exceeded", output, re.IGNORECASE):
        return disk_space.full(work, words)
    return SystemFault(
        f"pulling {name} failed", words or "the runtime said nothing", id="pull-failed"
    )


def with_storage(image: ImageInfo) -> ImageInfo:
    """Return the image with its file's size, squashfs and file system.

    A folder, or what is not here yet, has none of it.
    """
    if not image.path.is_file():
        return image
    size, kind = image.path.stat().st_size, disk_space.mount_type(image.path)
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
