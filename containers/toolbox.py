"""When root builds: Apptainer runs as the test cluster's user, in the cluster's toolbox.

Root of a restricted machine may lack capabilities that Apptainer wants of root, and an ordinary
user is what builds images elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import catalogue
from .errors import UsageError
from .places import Places, user_cache

USER, UID = "ada", 1000
SCRATCH = Path("/scratch", USER)
CACHE = Path("/var/cache/horovod-runner")
KIT = Path("/opt/kit")  # the checkout


def places(environ: Mapping[str, str]) -> Places:
    """The build's places as the host sees them."""
    cache = user_cache(environ)
    scratch = cache / "cluster" / "scratch" / USER
    return Places(cache, scratch / "horovod-runner", scratch / "images")


def on_host(path: Path, environ: Mapping[str, str]) -> Path:
    """A path below the toolbox's /scratch as the host sees it; others are a UsageError."""
    try:
        below = path.relative_to("/scratch")
    except ValueError:
        raise UsageError(
            f"--output {path}: root builds in the test cluster's toolbox, which shares only"
            f" /scratch.\nUse {SCRATCH}/images/{path.name}, or build as an ordinary user."
        ) from None
    return user_cache(environ) / "cluster" / "scratch" / below


def inside(path: Path, environ: Mapping[str, str]) -> Path:
    """The reverse of `on_host`: what a file on scratch is called in the cluster."""
    return Path("/scratch", path.relative_to(user_cache(environ) / "cluster" / "scratch"))


def prepare(host: Places) -> None:
    """Make the folders that the toolbox's user fills."""
    host.wheels.mkdir(parents=True, exist_ok=True)
    host.builds.mkdir(parents=True, exist_ok=True)
    os.chown(host.builds, UID, UID)


def argv(host: Places, arguments: Sequence[str]) -> list[str]:
    """The host command that builds in the toolbox with the given options."""
    variables = {
        "RUNNER_CACHE": str(CACHE),
        "RUNNER_SCRATCH": str(SCRATCH),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    settings = [f"{name}={value}" for name, value in variables.items()]
    return [
        *(sys.executable, "-m", "tests.cluster", "toolbox"),
        *("--bind", f"{host.wheels}:{CACHE}/wheels"),
        *("--bind", f"{host.builds}:{CACHE}/builds:rw"),
        *("--", "env", "-C", str(KIT), *settings),
        *("/opt/runner/bin/python", "-m", "runners", "build", *arguments),
    ]


def become(host: Places, arguments: Sequence[str]) -> None:
    """Go on in the toolbox; does not return."""
    prepare(host)
    os.chdir(catalogue.CHECKOUT)
    command = argv(host, arguments)
    sys.stderr.flush()
    os.execv(command[0], command)
