"""Images by name for Shifter and podman-hpc, and environments for no container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.core.model import RuntimeName
from runners.images import inspect
from runners.images.facts import environment_facts

from .. import sentences
from ..programs import program


@pytest.mark.parametrize(
    ("runtime", "name", "path"),
    [
        (RuntimeName.SHIFTER, "docker:nersc/pytorch:1", "docker:nersc/pytorch:1"),
        (RuntimeName.SHIFTER, "docker://nersc/pytorch:1", "docker:nersc/pytorch:1"),
        (RuntimeName.PODMAN_HPC, "registry.example.org/a/b:1", "registry.example.org/a/b:1"),
        (RuntimeName.PODMAN_HPC, "docker://a/b:1", "a/b:1"),
        (RuntimeName.PODMAN, "docker://login:5000/a/b:1", "login:5000/a/b:1"),
    ],
)
def test_names_in_a_store(runtime: RuntimeName, name: str, path: str) -> None:
    image = environment_facts.image(name, runtime)
    assert str(image.path) == path
    assert runtime in image.how("torch.version")


@pytest.mark.parametrize("name", ["oras://a/b:1", "a b", "https://a/b.sif"])
def test_what_is_no_name_in_a_store(name: str) -> None:
    pull = "shifterimg pull NAME:TAG, then --image NAME:TAG"
    with sentences.raises("store-name-malformed", pull):
        environment_facts.image(name, RuntimeName.SHIFTER)


@pytest.mark.parametrize("runtime", [RuntimeName.SHIFTER, RuntimeName.PODMAN_HPC, RuntimeName.NONE])
def test_no_image(runtime: RuntimeName) -> None:
    with sentences.raises("image-not-given"):
        environment_facts.image(None, runtime)


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "my venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def test_an_environment_is_looked_into_once(venv: Path) -> None:
    said: list[str] = []
    image = inspect.inspected(environment_facts.image(str(venv), RuntimeName.NONE), said.append)
    assert image.path == venv
    assert image.fact("python.version").startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert image.fact("horovod.version") == "none"
    assert said == [f"inspecting {venv}"]
    assert inspect.inspected(image, said.append).inspected == image.inspected
    assert len(said) == 1
    (site_packages,) = venv.glob("lib/python3*/site-packages")
    (site_packages / "new-1.dist-info").mkdir()
    assert not environment_facts.known(venv)


def test_an_environment_whose_python_does_not_run_has_a_problem(venv: Path) -> None:
    for python in (venv / "bin" / "python3", venv / "bin" / "python"):
        python.unlink()
        program(python, "exit 1")
    image = inspect.inspected(
        environment_facts.image(str(venv), RuntimeName.NONE), lambda text: None
    )
    assert image.problem is not None
    assert image.problem.id == "python-broken"


def test_what_is_no_environment(tmp_path: Path, venv: Path) -> None:
    (tmp_path / "sandbox" / ".singularity.d").mkdir(parents=True)
    (tmp_path / "sandbox" / "bin").mkdir()
    os.symlink(sys.executable, tmp_path / "sandbox" / "bin" / "python")
    for folder in ("sandbox", "nothing"):
        with sentences.raises("environment-not-found"):
            environment_facts.image(str(tmp_path / folder), RuntimeName.NONE)
