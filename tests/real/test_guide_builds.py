"""The guide's builds that compile Horovod, in a small form: the slow tests compile.

Each does all but the compilation, for which the wheel of `make build-cpu` is taken, or ends where
the compiler begins.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import documents
from tests.bench import plain
from tests.cluster.state import USER, State

from . import built
from .beside import cluster
from .conftest import IMAGE, Done, Login, ended, on_cluster, succeeded
from .test_environments import OPEN_MPI, shell

HVD, MINE = f"/scratch/{USER}/hvd", f"/scratch/{USER}/mine"  # as the guide names them
# What torch_mnist needs of the lock with files of MNIST; its other packages take pip minutes.
SMALL = """
cloudpickle filelock fsspec jinja2 markupsafe mpmath networkx numpy packaging psutil pyyaml
setuptools sympy torch typing-extensions
"""
# The kit with that lock, and an environment whose torch has no headers.
MAKE = f"""
set -e; cd /scratch/{USER}
mkdir -p kit mpi/bin modules/openmpi
cp -r /opt/kit/containers /opt/kit/runners /opt/kit/recipes kit
grep -E '^#|^({"|".join(SMALL.split())})==' /opt/kit/containers/horovod_cpu.lock \\
    > kit/containers/horovod_cpu.lock
for name in mpicxx mpirun mpiexec; do ln -s /usr/bin/$name.openmpi mpi/bin/$name; done
ln -s /usr/lib/x86_64-linux-gnu/openmpi/lib mpi/lib
python3 -m venv --system-site-packages hollow; mkdir hollow-wheels
python3 /opt/kit/tests/real/make_wheel.py hollow-wheels torch==1.0
hollow/bin/pip install --quiet --no-index hollow-wheels/*
"""
# An environment of a user's, with torch.
COPY = f"""
cp -al {HVD} {MINE}; rm {MINE}/horovod-runner.json
{MINE}/bin/python -m pip uninstall --quiet --yes horovod
"""
# `runner` of that kit, with a wheel that is there where it would compile one.
KEPT = f"""#!/opt/runner/bin/python
import shutil, sys
sys.path.insert(0, "/scratch/{USER}/kit")
from containers import host_horovod
from containers.foreign_horovod import HorovodBuild
from runners.__main__ import main
WHEEL = "{{wheel}}"
host_horovod._compile = lambda compilation, work, result, log: shutil.copy(WHEEL, result)
HorovodBuild.compile = lambda *_: WHEEL
main()
"""
SITE = "/opt/horovod/lib/python3.11/site-packages"  # the image's
MODULES = f"module use /scratch/{USER}/modules"
WHEELS = f"--wheelhouse /scratch/{USER}/wheels"


def test_the_images_horovod_as_a_wheel(login: Login) -> None:
    folder = f"{login.folder}/wheel"
    command = built.words(documents.command("runner build wheel"))
    done = built.build(*command, "-o", folder, seconds=60)
    assert "Horovod wheel" not in done.stderr  # it is compiled already
    name = done.stdout.strip().rpartition("/")[2]
    assert done.stdout == f"{folder}/{name}\n"
    assert done.stderr == login.sh(f"cat wheel/{name}.sha256")
    login.sh(f"cd wheel && sha256sum --check *.sha256; python3 -m zipfile -e {name} ../out")
    library = "horovod/torch/mpi_lib_v2*.so"
    packed = login.sh(f"apptainer exec {IMAGE} sh -c 'cat {SITE}/{library}' | sha256sum")
    assert login.sh(f"cat out/{library} | sha256sum") == packed


@pytest.mark.parametrize("image", ["gpu", "gpu13"])
def test_the_other_images_as_far_as_they_are_planned(image: str) -> None:
    """What an earlier build on this machine has left is not planned again."""
    parts = [([image], "environment, with its test"), (["wheel", image], "Horovod wheel")]
    for words, part in parts:
        done = built.build(*words, "--dry-run", seconds=60)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("# ")]
        planned = any(f"--build-arg lock=horovod_{image}.lock" in line for line in lines)
        assert planned != (f"{part}: nothing to do" in done.stdout)
        assert ("horovod_gpu.def" in done.stdout) == (words == [image])


@pytest.mark.parametrize("image", ["cpu", "gpu13"])
def test_an_image_for_arm_as_far_as_this_machine_can(image: str) -> None:
    command = built.words(documents.command(f"runner build {image} --arch"))
    done = built.run(*command, "--dry-run", seconds=60)
    if any(Path("/proc/sys/fs/binfmt_misc").glob("qemu-aarch64*")):
        assert done.returncode == 0, done.stderr
        assert f"--build-arg lock=horovod_{image}.arm64.lock" in done.stdout
    else:
        assert done.returncode == 80
        assert "runs no programs for arm64" in done.stderr
        assert "try: apt-get install qemu-user-static" in done.stderr


@pytest.fixture(scope="module")
def bookworm() -> Iterator[Path]:
    """A Debian 12 with an Open MPI in a module; yields ada's scratch as this machine sees it."""
    plan = plain.image_plan()
    with cluster("--release", "bookworm"):
        scratch = State.locate().scratch / USER
        shutil.copytree(plan.wheels, scratch / "wheels", copy_function=os.link)
        (compiled,) = plan.horovod.glob("*.whl")
        shutil.copy(compiled, scratch)
        succeeded(on_cluster(["bash", "-c", MAKE]))
        module = scratch / "modules" / "openmpi" / "4.1"
        module.write_text(OPEN_MPI.format(folder=f"/scratch/{USER}/mpi"), encoding="utf-8")
        runner = scratch / "runner"
        runner.write_text(KEPT.format(wheel=f"/scratch/{USER}/{compiled.name}"), encoding="utf-8")
        runner.chmod(0o755)
        yield scratch


def with_kept_wheel(login: Login, start: str, *words: str) -> Done:
    """Type the guide's command that starts so, with further words."""
    command = f"{documents.command(start)} {' '.join(words)}"
    return shell(login, MODULES, f"export PATH=/scratch/{USER}:$PATH", command, timeout=600)


def labels(scratch: Path, environment: str) -> dict[str, str]:
    path = scratch / Path(environment).name / "horovod-runner.json"
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["labels"]
    return found


@pytest.fixture(scope="module")
def made(bookworm: Path) -> Done:
    """The environment from the lock."""
    return with_kept_wheel(Login(f"/scratch/{USER}"), "runner build env ", WHEELS)


def test_an_environment_from_the_lock(bookworm: Path, made: Done, login: Login) -> None:
    assert made.stdout == f"{HVD}\n", made.stderr
    assert "Horovod 0.28.1, mpi,gloo, openmpi 4.1.4 (" in made.stderr
    assert labels(bookworm, HVD)["modules"] == "openmpi/4.1"
    launch = documents.command(f"runner launch --runtime none --image {HVD} ")
    assert login.runner("data", "synth", "mnist", "digits", "--samples", "60").returncode == 0
    launch = launch.replace(" torch_mnist", " --data digits --wait torch_mnist -- --epochs 1")
    succeeded(shell(login, MODULES, launch))
    assert login.told("result")["world_size"] == 2
    ended(with_kept_wheel(login, "runner build env "), 2, "is there already, and not empty")


def test_horovod_into_an_environment_of_ones_own(bookworm: Path, made: Done, login: Login) -> None:
    assert made.returncode == 0, made.stderr
    login.sh(COPY)
    done = with_kept_wheel(login, "runner build horovod ", WHEELS)
    assert done.stdout == f"{MINE}\n", done.stderr
    assert "Horovod 0.28.1 for torch; controllers: MPI and Gloo; for CPUs" in done.stderr
    told = labels(bookworm, MINE)
    assert (told["horovod.frameworks"], told["horovod.controllers"]) == ("pytorch", "mpi,gloo")
    succeeded(with_kept_wheel(login, f"runner plan --runtime none --image {MINE} "))


def test_what_does_not_compile_leaves_the_environment_as_it_was(
    bookworm: Path, login: Login
) -> None:
    """All before the compiler is done for real: its tools, the archive, the edits, CMake."""
    folder = f"/scratch/{USER}/hollow"
    before = login.sh(f"ls {folder}/lib/python3*/site-packages")
    words = f"--into {folder} --module openmpi/4.1 {WHEELS}"
    done = shell(login, MODULES, f"runner build horovod {words}", timeout=600)
    ended(done, 1, "-m pip failed (exit code 1):\n  | CMake Error at ")
    assert "Could NOT find Pytorch" in done.stderr.partition("The end of its log")[0]
    assert login.sh(f"ls {folder}/lib/python3*/site-packages") == before
