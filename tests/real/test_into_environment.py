"""Horovod into an environment that is there, on Debian 12, whose Python has torch's wheel.

It is then taken as a user takes it: activated, by a module, and with the starters typed by hand.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.bench import plain
from tests.cluster.state import UID, USER, State

from .beside import cluster
from .conftest import Done, Login, ended, on_cluster, succeeded
from .studies import fetch
from .test_allocation_and_host_mpi import TWO, hello, ranks
from .test_environments import OPEN_MPI, PYTHON, shell
from .test_inside import TWO_BY_TWO

__all__ = ["hello"]
pytestmark = pytest.mark.slow
FOLDER = f"/scratch/{USER}/site"
ENVIRONMENT = f"{FOLDER}/env"
TORCH = "2.13.0+cpu"
NUMPY = "2.3.5"  # the lock has another
MAKE = f"""
set -e; cd {FOLDER}; python3 -m venv env
mkdir -p env/conda-meta mpi/bin modules/openmpi modules/torch; touch env/conda-meta/history
env/bin/pip install --quiet --no-index --find-links=wheels torch=={TORCH} numpy=={NUMPY}
for name in mpicxx mpirun mpiexec; do ln -s /usr/bin/$name.openmpi mpi/bin/$name; done
ln -s /usr/lib/x86_64-linux-gnu/openmpi/lib mpi/lib
"""
MODULES = f"module use {FOLDER}/modules"
PARTS = f"--module openmpi/4.1 --wheelhouse {FOLDER}/wheels"
BUILD = f"runner build horovod --into {ENVIRONMENT} {PARTS}"


@pytest.fixture(scope="module", autouse=True)
def bookworm() -> Iterator[State]:
    """A Debian 12 with torch in an environment, and Horovod for it by the module of an Open MPI."""
    with cluster("--release", "bookworm"):
        state = State.locate()
        wheels = state.scratch / USER / "site" / "wheels"
        shutil.copytree(plain.image_plan().wheels, wheels)
        fetch(wheels, [f"torch=={TORCH}", f"numpy=={NUMPY}"])
        os.chown(wheels.parent, UID, UID)
        succeeded(on_cluster(["bash", "-c", MAKE]))
        for name, text in (("openmpi/4.1", OPEN_MPI), ("torch/2", PYTHON)):
            folder = f"{FOLDER}/mpi" if name == "openmpi/4.1" else ENVIRONMENT
            file = state.scratch / USER / "site" / "modules" / name
            file.write_text(text.format(folder=folder), encoding="utf-8")
        yield state


def active(login: Login, command: str) -> Done:
    return shell(login, MODULES, f"export CONDA_PREFIX={ENVIRONMENT}", command)


def test_the_plan_says_that_it_is_missing_and_it_is_compiled(login: Login) -> None:
    before = ended(active(login, "runner plan --nodes 2 torch_mnist"), 80)
    assert f"try: runner build horovod --into {ENVIRONMENT}" in before.stdout + before.stderr
    done = shell(login, MODULES, BUILD, timeout=1500)
    assert done.stdout == f"{ENVIRONMENT}\n", done.stderr
    labels = json.loads(login.sh(f"cat {ENVIRONMENT}/horovod-runner.json"))["labels"]
    assert labels["horovod.frameworks"] == "pytorch"
    assert labels["horovod.controllers"] == "mpi,gloo"
    assert labels["modules"] == "openmpi/4.1"
    assert labels["torch.version"] == TORCH
    kept = login.sh(f"{ENVIRONMENT}/bin/python -c 'import numpy; print(numpy.__version__)'")
    assert kept == f"{NUMPY}\n"
    after = succeeded(active(login, "runner plan --nodes 2 torch_mnist"))
    assert f"CONDA_PREFIX={ENVIRONMENT}" in after.stdout
    ended(shell(login, MODULES, BUILD), 80, "already has Horovod 0.28.1")


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
@pytest.mark.parametrize("by", ["active", "module"])
def test_it_is_taken_without_an_image(login: Login, hello: str, by: str, controller: str) -> None:
    words = f"{' '.join(TWO)} --controller {controller} --follow --all {hello}"
    if by == "module":
        done = shell(login, MODULES, f"runner launch --module openmpi --module torch {words}")
    else:
        done = active(login, f"runner launch {words}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ranks(done.stdout) == [
        ("n1", "0", "2", "3.0", ENVIRONMENT),
        ("n2", "1", "2", "3.0", ENVIRONMENT),
    ]


# How the ranks are started by hand -> their nodes, rank by rank.
STARTS = {
    "-np 4 -H localhost:2,n2:2": "n1 n1 n2 n2",
    "-np 2 -H n2:2": "n2 n2",
    "--gloo -np 4 -H n1:2,n2:2": "n1 n1 n2 n2",
    "--gloo -np 2 -H n2:2": "n2 n2",
    "--mpi -np 4 -H n1:2,n2:2": "n1 n1 n2 n2",
}


@pytest.mark.parametrize("start", STARTS)
def test_horovodrun_in_a_shell_without_a_container(login: Login, start: str) -> None:
    login.write("train.py", TWO_BY_TWO)
    done = active(login, f"runner shell --nodes 2 -c 2 -- horovodrun {start} python3 train.py")
    told = re.findall(r"(\d) of (\d) on (n\d): (\d+)", done.stdout)
    nodes = STARTS[start].split()
    total = str(sum(range(1, len(nodes) + 1)))
    wanted = [(str(rank), str(len(nodes)), node, total) for rank, node in enumerate(nodes)]
    assert sorted(told) == wanted, done.stdout + done.stderr


def test_what_does_not_compile_leaves_nothing(login: Login) -> None:
    login.sh("python3 -m venv plain; python3 -m venv --without-pip none")
    plain_one = login.runner("build", "horovod", "--into", f"{login.folder}/plain")
    ended(plain_one, 80, "has neither torch nor TensorFlow to compile Horovod for")
    for words in (["horovod"], ["horovod", "plain"], ["horovod", "--into", "nowhere"]):
        assert login.runner("build", *words).returncode == 2, words
    assert login.sh("ls -A") == "none\nplain\n"
    assert shlex.split(login.sh("ls plain")) == ["bin", "include", "lib", "lib64", "pyvenv.cfg"]
