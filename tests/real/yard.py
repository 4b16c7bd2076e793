"""A folder on the cluster with small images to build on, and users who may do less than ada."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from .conftest import Done, Login, new_folder, on_cluster

MAKE = "bash /opt/kit/tests/real/tiny.sh"
# As root, in a mount namespace of its own: what is mounted there ends with the script.
PRIVATE = ["unshare", "--mount", "bash", "-euc"]


@dataclass(frozen=True)
class Yard(Login):
    """Commands of ada in the folder; builds have a scratch of their own there."""

    def build(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Run `runner build`."""
        return self.runner("build", *words, env={"RUNNER_SCRATCH": self.scratch, **(env or {})})

    @property
    def scratch(self) -> str:
        """The scratch of the builds."""
        return f"{self.folder}/scratch"

    def as_root(self, script: str) -> Done:
        """Run a shell script as root in the folder."""
        setup = f"cd {shlex.quote(self.folder)}; export PATH=/opt/runner/bin:$PATH\n"
        return on_cluster([*PRIVATE, setup + script], user="root")

    def fresh(self, name: str, **files: str) -> str:
        """Make an empty folder with definitions, NAME=body, on the small image; return its path."""
        folder = f"{self.folder}/{name}"
        self.sh(f"rm -rf {shlex.quote(folder)}; mkdir {shlex.quote(folder)}")
        for stem, body in files.items():
            header = f"Bootstrap: localimage\nFrom: {self.folder}/shell.sif\n"
            self.write(f"{name}/{stem}.def", header + body)
        return folder

    def left(self) -> str:
        """Return what builds have left: temporary files, half images, processes, mounts."""
        return self.sh(
            "find scratch/horovod-runner/tmp -mindepth 1; find . -name '*.part';"
            ' grep "$PWD" /proc/self/mounts || true;'
            ' pgrep -af "apptainer.*$(basename $PWD)" || true'
        )


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    """One for all tests of a module."""
    folder = new_folder(name="yard")
    made = Yard(folder)
    try:
        made.sh(f"chmod 755 .; mkdir base scratch; cd base; {MAKE}; mv *.sif ..; rm -rf ../base")
        yield made
    finally:
        on_cluster(["rm", "-rf", folder])
