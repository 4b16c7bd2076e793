"""Whether the container runtime mounts an image's file, or unpacks all of it at each start.

Apptainer 1.1 and newer without a setuid part mounts by squashfuse, and where that is missing it
unpacks into a temporary folder for each `exec`, "Converting SIF file to temporary sandbox".
"""

from __future__ import annotations

import os
import shutil

from ..core import shell

SQUASHFUSE = ("squashfuse_ll", "squashfuse")
SETUID = ("APPTAINER_SUID_INSTALL", "SINGULARITY_SUID_INSTALL")
SECONDS = 10.0


def parse_config(text: str) -> dict[str, str]:
    """Parse the lines `NAME=value` of `apptainer buildcfg`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def setuid(config: dict[str, str]) -> bool:
    """Whether the installation has a program that runs as root, by its build configuration."""
    return "1" in (config.get(name) for name in SETUID)


def beside(config: dict[str, str]) -> str:
    """Return the PATH on which the runtime looks for its tools: beside itself too."""
    libexec = f"{config.get('LIBEXECDIR', '')}/apptainer/bin"
    return os.pathsep.join([libexec, os.environ.get("PATH", os.defpath)])


def why_not(command: str) -> str:
    """Return why an image is unpacked at each start, "" when it is mounted or nobody knows."""
    done = shell.run([command, "buildcfg"], timeout=SECONDS)
    config = parse_config(done.out)
    if done.code or not any(name in config for name in SETUID) or setuid(config):
        return ""
    there = any(shutil.which(name, path=beside(config)) for name in SQUASHFUSE)
    return "" if there else f"this {command} has neither a setuid part nor squashfuse"
