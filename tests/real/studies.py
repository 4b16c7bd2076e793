"""`runner scale` on the test cluster, with the extra packages that it needs."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.install import download
from tests.cluster.state import State

from .conftest import UNPACKED, Login, new_folder, on_cluster, succeeded

PYTHON = "/opt/runner/bin/python"
PACKAGES = ("matplotlib>=3.7",)


@contextmanager
def extra_packages(*packages: str) -> Iterator[str]:
    """The extra packages in a folder of ada's: fetched here, installed by the cluster's Python."""
    folder = new_folder(name="extra")
    try:
        wheels = State.locate().scratch / "ada" / Path(folder).name / "wheels"
        fetch(wheels, packages or PACKAGES)
        # Not compiled: most of it is never imported.
        words = ["--quiet", "--no-compile", "--no-index", f"--find-links={folder}/wheels"]
        words += [f"--target={folder}/lib"]
        succeeded(on_cluster([PYTHON, "-m", "pip", "install", *words, *(packages or PACKAGES)]))
        yield f"{folder}/lib"
    finally:
        on_cluster(["rm", "-rf", folder])


def fetch(wheels: Path, packages: Sequence[str]) -> None:
    """Download what suits the cluster's Python, for ada to read and take away."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = on_cluster([PYTHON, "-c", ask]).stdout.strip()
    download(wheels, version, packages)
    for path in (wheels, *wheels.iterdir()):
        os.chown(path, wheels.parent.stat().st_uid, -1)
        path.chmod(0o755)


def scale(
    login: Login, extra: str, *words: str, limit: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command; `limit` is a command before it, such as `timeout -s INT 5`."""
    command = ["env", f"PYTHONPATH={extra}", *shlex.split(limit), "runner", "scale"]
    return login.run(*command, "--image", UNPACKED, *words, timeout=600)
