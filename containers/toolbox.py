"""When root builds from a checkout: Apptainer runs as the test cluster's user, in its toolbox.

Root of a restricted machine may lack capabilities that Apptainer wants of root, and an ordinary
user is what builds images elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from runners.core import atomic
from runners.core.errors import UsageError
from runners.core.places import Places, user_cache

from . import catalogue, pip

USER, UID = "ada", 1000
SCRATCH = Path("/scratch", USER)
CACHE = Path("/var/cache/horovod-runner")
KIT = Path("/opt/kit")  # the checkout
INPUTS = CACHE / "inputs"  # folders of this machine that a build reads


def needed() -> bool:
    """Whether the steps with Apptainer have to be done in the toolbox, by another user."""
    return os.geteuid() == 0 and (catalogue.CHECKOUT / "tests" / "cluster").is_dir()


def places(environ: Mapping[str, str]) -> Places:
    """The build's places as the host sees them."""
    scratch = _scratch(environ) / USER
    return Places(user_cache(environ), scratch / "horovod-runner", scratch / "images")


def _scratch(environ: Mapping[str, str]) -> Path:
    return user_cache(environ) / "cluster" / "scratch"


def on_host(path: Path, environ: Mapping[str, str], option: str = "--output") -> Path:
    """A path below the toolbox's /scratch as the host sees it; others are a UsageError."""
    if not path.is_relative_to("/scratch"):
        raise UsageError(
            f"{option} {path}: root builds in the test cluster's toolbox, which shares only"
            f" /scratch.\nUse {SCRATCH}/images/{path.name}, or build as an ordinary user."
        )
    return _scratch(environ) / path.relative_to("/scratch")


def inside(path: Path, environ: Mapping[str, str]) -> Path:
    """The reverse of `on_host`: what a file on scratch is called in the cluster."""
    return Path("/scratch", path.relative_to(_scratch(environ)))


@dataclass
class Inputs:
    """The files that a build reads: their folders are bound into the toolbox."""

    environ: Mapping[str, str]
    folders: dict[Path, Path] = field(default_factory=dict)  # on this machine -> in the toolbox

    def inside(self, path: Path) -> Path:
        """What `path` is called in the toolbox."""
        path = path.absolute()
        if _scratch(self.environ) in path.parents:
            return inside(path, self.environ)
        folder = path if path.is_dir() else path.parent
        if ":" in str(folder):
            raise UsageError(f"{folder}: root cannot build from a folder with ':' in its name")
        there = self.folders.setdefault(folder, INPUTS / str(len(self.folders)))
        return there if path.is_dir() else there / path.name

    def options(self) -> list[str]:
        bound = self.folders.items()
        return [word for here, there in bound for word in ("--bind", f"{here}:{there}")]


def argv(
    host: Places,
    words: Sequence[str],
    binds: Sequence[str] = (),
    folder: Path = KIT,
    more: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The host command that runs `runner` in the toolbox, with these words and `more` variables."""
    variables = {
        "RUNNER_CACHE": str(CACHE),
        "RUNNER_SCRATCH": str(SCRATCH),
        "PIP_CONFIG_FILE": str(SCRATCH / "horovod-runner" / "pip.conf"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    settings = [f"{name}={value}" for name, value in variables.items()]
    return [
        *(sys.executable, "-m", "tests.cluster", "toolbox"),
        *("--bind", f"{host.wheels}:{CACHE}/wheels"),
        *("--bind", f"{host.builds}:{CACHE}/builds:rw"),
        *binds,
        *("--", "env", "-C", str(folder), *settings, f"PYTHONPATH={KIT}"),
        *("/opt/runner/bin/python", "-m", "runners", *words),
    ]


def run(words: Sequence[str], binds: Sequence[str], more: Mapping[str, str]) -> int:
    """Run `runner` in the toolbox, in the user's folder on scratch; return its exit code."""
    host = places(os.environ)
    prepare(host)
    command = argv(host, words, binds, SCRATCH, more)
    return subprocess.run(command, cwd=catalogue.CHECKOUT, check=False).returncode


def become(arguments: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Go on with `runner build` in the toolbox; does not return."""
    host = places(os.environ)
    prepare(host)
    os.chdir(catalogue.CHECKOUT)
    command = argv(host, ["build", *arguments], binds)
    sys.stderr.flush()
    os.execv(command[0], command)


def prepare(host: Places) -> None:
    """Make the folders that the toolbox's user fills, and tell its pip where packages are."""
    host.wheels.mkdir(parents=True, exist_ok=True)
    # The parent too: it is the user's folder on scratch, where the image is put in the end.
    for folder in (host.builds, host.work.parent, host.work):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, UID, UID)
    settings = pip.machine_settings()
    kept = {name: text for name, text in settings.items() if name not in pip.FILES}
    path = host.work / "pip.conf"  # private: indexes may be named with a password
    atomic.write_text(path, pip.render_settings(kept), private=True)
    os.chown(path, UID, UID)
