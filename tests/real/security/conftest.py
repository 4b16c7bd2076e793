"""A second ordinary user on the nodes, and jobs of ada's for him to attack."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.real.conftest import IMAGE, Done, Login, new_folder, on_cluster, succeeded, write

NODES = ("login", "n1", "n2")
SECONDS_TO_START = 120


@dataclass(frozen=True)
class Stranger:
    """User bob (uid 1001), who has an empty folder of his own and may write in /scratch/shared."""

    folder: str

    def run(self, *argv: str, node: str = "login", timeout: float = 120) -> Done:
        """Run a command of bob's on a node, in his folder."""
        command = ["env", "-C", self.folder, *argv]
        return on_cluster(command, node=node, user="bob", timeout=timeout)

    def sh(self, script: str, node: str = "login") -> str:
        """Return the output of a shell script of bob's that must succeed."""
        return succeeded(self.run("bash", "-ec", script, node=node)).stdout

    def python(self, program: str, *argv: str, node: str = "login") -> Done:
        """Run a Python program of bob's on a node."""
        return self.run("python3", "-c", program, *argv, node=node)

    def start(self, script: str, node: str = "login") -> None:
        """Start a shell script of bob's that goes on until the test ends."""
        self.sh(f"setsid bash -c {shlex.quote(script)} < /dev/null > log 2>&1 &", node)

    def write(self, name: str, text: str) -> str:
        """Write a file in bob's folder; return its path."""
        return write(f"{self.folder}/{name}", text, "bob")


@dataclass(frozen=True)
class Job:
    """A job of ada's."""

    login: Login
    id: str
    folder: str

    @property
    def log(self) -> str:
        """The log so far."""
        return self.login.sh(f"cat {self.folder}/logs/job.log 2>/dev/null || true")

    def wait_for(self, text: str, seconds: float = SECONDS_TO_START) -> None:
        """Wait until the log has *text*; the job must not end before."""
        deadline = time.monotonic() + seconds
        while text not in self.log:
            state = self.login.sh(f"squeue --noheader --format=%T --job {self.id} 2>&1 || true")
            ended = state.strip() not in ("PENDING", "CONFIGURING", "RUNNING")
            assert not ended or text in self.log, f"{state}: {self.log}"
            assert time.monotonic() < deadline, f"no {text!r} in: {self.log}"
            time.sleep(0.2)

    def end(self) -> int:
        """Wait until the job has ended; return its exit code."""
        return self.login.runner("wait", self.id).returncode


def start(
    login: Login, *words: str, image: str = IMAGE, env: Mapping[str, str] | None = None
) -> Job:
    """Launch a job of ada's and leave it in the queue."""
    before = set(login.runs())
    done = succeeded(login.runner("launch", "--image", image, "--parsable", *words, env=env))
    (name,) = set(login.runs()) - before
    return Job(login, done.stdout.strip(), f"{login.folder}/runs/{name}")


@pytest.fixture
def bob() -> Iterator[Stranger]:
    """The other user; his processes and files are removed afterwards."""
    folder = new_folder("bob")
    yield Stranger(folder)
    for node in NODES:
        script = "pkill -KILL -u bob; find /tmp /dev/shm /scratch/shared -xdev -user bob -delete"
        on_cluster(["bash", "-c", script], user="root", node=node)
    on_cluster(["rm", "-rf", folder], user="root")
