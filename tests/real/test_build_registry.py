"""The CPU image where there is no mmdebstrap (RHEL, SLES): base of a registry or of a local
archive, apt in %post.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import debian
from tests.cluster import apt
from tests.cluster.state import UID, State
from tests.docker_archive import docker_archive

from .conftest import CHECKOUT, Done, succeeded

# Half an hour: Horovod is compiled for the base's own packages.
pytestmark = pytest.mark.slow

SERVE = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/registry}}}}
http: {{addr: '127.0.0.1:{port}'}}
"""
PUSH = """\
cd {folder}
export RUNNER_SCRATCH=$PWD APPTAINER_TMPDIR=$PWD APPTAINER_CACHEDIR=$PWD PYTHONPATH=/opt/kit
apptainer build --fakeroot base.sif docker-archive:docker.tar
/opt/runner/bin/python -m runners push --no-https base.sif docker://127.0.0.1:{port}/debian:12-slim
"""


def toolbox(*words: str) -> list[str]:
    """A command of ada's in the host's network, in which images are built."""
    return [sys.executable, "-m", "tests.cluster", "toolbox", "--", *words]


def run(command: list[str], seconds: float) -> Done:
    environ = {**os.environ, "APPTAINER_NOHTTPS": "1"}
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds, env=environ
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """An empty folder of ada's, as this machine sees it."""
    path = State.locate().scratch / "ada" / "registry-base"
    path.mkdir()
    os.chown(path, UID, UID)
    yield path
    succeeded(run(toolbox("rm", "-rf", f"/scratch/ada/{path.name}"), 60))


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    """Debian 12 with apt's sources, made by mmdebstrap, as `docker save` writes it."""
    mirror = apt.host_mirror(os.environ)
    packages, layer = ["ca-certificates", "apt"], folder / "base.tar"
    argv = debian.argv(mirror, "bookworm", ["main"], packages, layer, mode="root")
    kept = [word for word in argv if not word.startswith("--customize-hook=")]  # its sources stay
    subprocess.run(kept, check=True)
    docker_archive(layer, folder / "docker.tar")
    return folder / "docker.tar"


@pytest.fixture
def registry(archive: Path) -> Iterator[str]:
    """The same in a registry of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = archive.parent
    inside = f"/scratch/ada/{folder.name}"
    (folder / "registry.yml").write_text(SERVE.format(folder=inside, port=port))
    server = subprocess.Popen(
        toolbox("timeout", "3600", "docker-registry", "serve", f"{inside}/registry.yml"),
        cwd=CHECKOUT,
    )
    try:
        time.sleep(2)
        push = PUSH.format(folder=inside, port=port)
        succeeded(run(toolbox("sh", "-euc", push), 300))
        yield f"127.0.0.1:{port}/debian:12-slim"
    finally:
        server.kill()


def test_the_cpu_image_on_a_base_of_a_registry(registry: str, folder: Path) -> None:
    builds(registry, folder)


def test_the_cpu_image_on_a_base_of_a_local_archive(archive: Path, folder: Path) -> None:
    base = f"docker-archive:/scratch/ada/{folder.name}/{archive.name}"
    output = builds(base, folder)
    kept = succeeded(run(toolbox("apptainer", "inspect", "--deffile", output), 60)).stdout
    assert "bootstrap: docker-archive\nfrom: base\n" in kept.lower()


def builds(base: str, folder: Path) -> str:
    """Build the CPU image on a base; return its path."""
    output = f"/scratch/ada/{folder.name}/cpu.sif"
    words = ["build", "cpu", "--base", base, "--pack-level", "1", "-o", output]
    runner = [sys.executable, "-m", "tests.cluster", "runner", "--", *words]
    done = succeeded(run(runner, 3600))
    assert done.stdout == f"{output}\n"
    assert "base to compile in" not in done.stderr
    labels = succeeded(run(toolbox("apptainer", "inspect", "--labels", output), 60)).stdout
    assert "horovod.controllers: mpi,gloo" in labels
    assert "horovod.frameworks: pytorch,tensorflow" in labels
    return output
