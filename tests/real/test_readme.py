"""The README's tasks, each command as it stands there."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.reference import README

from .conftest import Login

TRAINER = "import horovod.torch as hvd; hvd.init(); print('world of', hvd.size()); hvd.shutdown()"
NPZ = (
    "import numpy; i = numpy.random.default_rng(0).integers; u = 'uint8'; numpy.savez("
    "'mnist/mnist.npz', x_train=i(0, 255, (256, 28, 28), u), y_train=i(0, 10, 256, u), "
    "x_test=i(0, 255, (64, 28, 28), u), y_test=i(0, 10, 64, u))"
)


def section(name: str) -> str:
    """Return a section of the README."""
    return README.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[str]:
    """Return the commands of its consoles; those in plain text blocks need more than is here."""
    consoles = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return re.findall(r"^\$ (runner .*)$", "\n".join(consoles), re.MULTILINE)


def test_every_command_of_the_tasks(login: Login) -> None:
    login.write("train.py", TRAINER)
    image = "/scratch/ada/images/horovod_cpu.sif"
    login.sh(f"mkdir mnist; apptainer exec {image} python -c {shlex.quote(NPZ)}")
    tasks = section("Tasks")
    toml = re.search(r"```toml\n(.*?)```", tasks, re.DOTALL)
    assert toml is not None
    found = commands(tasks)
    assert len(found) >= 15
    for command in found:
        if command.startswith("runner config"):
            login.write("runner.toml", toml.group(1))
        done = login.run(*shlex.split(command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", ["Follow a job", "Arrays and sweeps", "Trainers", "Data"])
def test_every_command_of_a_section(login: Login, name: str) -> None:
    found = commands(section(name))
    assert len(found) >= 4
    for command in found:
        done = login.run(*shlex.split(command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_every_command_of_the_images(login: Login) -> None:
    found = commands(section("Images"))
    assert len(found) >= 6
    for command in found:
        done = login.run(*shlex.split(command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert (done.stdout + done.stderr).strip(), command
