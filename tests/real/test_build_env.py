"""An environment without a container: compiled on Debian 12, whose Python is the lock's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import plain
from tests.cluster.state import UID, USER, State

from .beside import cluster
from .conftest import Login
from .test_elsewhere import HELLO, TWO, ranks

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root")
ENVIRONMENT = f"/scratch/{USER}/hvd"
SECONDS = 1500  # of which compiling takes 280 on two quiet cores, once
LIBRARY = "/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40"


@pytest.fixture(scope="module")
def bookworm() -> Iterator[State]:
    """A cluster with compilers and Open MPI, and what was fetched and compiled before."""
    kept = State.locate().cache / "host-horovod"
    with cluster("--release", "bookworm"):
        state = State.locate()
        work = state.scratch / USER / "horovod-runner"
        wheels = plain.image_plan().wheels
        shutil.copytree(wheels, work / "wheels" / wheels.name)
        shutil.copytree(kept, work / "builds") if kept.exists() else (work / "builds").mkdir()
        _give(work)
        yield state
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(work / "builds", kept)


def _give(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID)


def test_it_is_compiled_for_the_hosts_mpi_and_runs_on_two_nodes(
    bookworm: State, login: Login
) -> None:
    done = login.run("runner", "build", "env", ENVIRONMENT, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{ENVIRONMENT}\n"
    assert "Horovod 0.28.1, mpi,gloo, openmpi 4.1.4 (" in done.stderr
    hello = login.write("hello.py", HELLO)
    for controller in ("mpi", "gloo"):
        words = ["launch", "--runtime", "none", "--image", ENVIRONMENT, *TWO, "--all"]
        done = login.runner(*words, "--controller", controller, "--follow", hello)
        assert done.returncode == 0, done.stdout + done.stderr
        expected = [("n1", "0", "2", "3.0", ENVIRONMENT), ("n2", "1", "2", "3.0", ENVIRONMENT)]
        assert ranks(done.stdout) == expected
    again = login.runner("build", "env", ENVIRONMENT, "--into")
    assert again.returncode == 80
    assert "already has Horovod 0.28.1" in again.stderr
    _of_another_mpi(bookworm, login, hello)


def _of_another_mpi(bookworm: State, login: Login, hello: str) -> None:
    """As if the host's MPI had been upgraded since: the label has another checksum."""
    label = bookworm.scratch / USER / "hvd" / "horovod-runner.json"
    record = json.loads(label.read_text(encoding="utf-8"))
    assert record["labels"]["mpi.library"].startswith(LIBRARY)
    record["labels"]["mpi.sha256"] = "0" * 64
    label.write_text(json.dumps(record), encoding="utf-8")
    done = login.runner("launch", "--runtime", "none", "--image", ENVIRONMENT, *TWO, hello)
    assert done.returncode == 80
    assert "the MPI changed after the Horovod in" in done.stderr
    assert "runner build env" in done.stderr
