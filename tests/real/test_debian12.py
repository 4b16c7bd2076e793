"""What needs a host of the image's own kind, Debian 12, whose Python is also that of the lock.

An environment without a container, and the host's MPI in the image.
"""

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
from .conftest import IMAGE, Login, ended, on_cluster, succeeded
from .studies import extra_packages, scale
from .test_allocation_and_host_mpi import TWO, hello, in_allocation, ranks

__all__ = ["hello"]
pytestmark = pytest.mark.slow
ENVIRONMENT = f"/scratch/{USER}/hvd"
SECONDS = 2400  # of which compiling takes 320 on two quiet cores, once
LIBRARY = "/usr/lib/x86_64-linux-gnu/libmpi.so.40"


@pytest.fixture(scope="module")
def bookworm() -> Iterator[State]:
    """A Debian 12 with an environment that `runner build env` made; what it compiled is kept."""
    kept = State.locate().cache / "host-horovod"
    with cluster("--release", "bookworm"):
        state = State.locate()
        work = state.scratch / USER / "horovod-runner"
        wheels = plain.image_plan().wheels
        shutil.copytree(wheels, work / "wheels" / wheels.name)
        shutil.copytree(kept, work / "builds") if kept.exists() else (work / "builds").mkdir()
        _give(work)
        done = succeeded(on_cluster(["runner", "build", "env", ENVIRONMENT], timeout=SECONDS))
        assert done.stdout == f"{ENVIRONMENT}\n"
        assert "Horovod 0.28.1, mpi,gloo, openmpi 4.1.4 (" in done.stderr
        yield state
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(work / "builds", kept)


def _give(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID)


def test_it_knows_the_hosts_mpi(bookworm: State) -> None:
    labels = json.loads(_label(bookworm).read_text(encoding="utf-8"))["labels"]
    assert labels["mpi.library"].startswith(LIBRARY)
    assert labels["mpi.version"] == "4.1.4"
    assert labels["horovod.controllers"] == "mpi,gloo"


def test_doctor_knows_it(bookworm: State, login: Login) -> None:
    done = login.runner("doctor", "--image", ENVIRONMENT, "--runtime", "none", "--json")
    found = {(item["subject"], item["name"]): item for item in json.loads(done.stdout)["diagnoses"]}
    assert "horovod.controllers: mpi,gloo (label)" in found["image", "facts"]["evidence"]
    assert found["image", "plan"]["severity"] == "ok"


def test_the_hosts_mpi_serves_an_image_of_the_same_kind(
    bookworm: State, login: Login, hello: str
) -> None:
    done = succeeded(login.launch(*TWO, "--host-mpi", "--follow", "--all", hello))
    assert "runner: host MPI: Open MPI v4.1.4, /host-mpi/libmpi.so.40, 2 ranks" in done.stdout
    assert ranks(done.stdout) == [
        ("n1", "0", "2", "3.0", "/opt/horovod"),
        ("n2", "1", "2", "3.0", "/opt/horovod"),
    ]


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_an_environment_without_a_container(
    bookworm: State, login: Login, hello: str, controller: str
) -> None:
    words = ("--runtime", "none", "--image", ENVIRONMENT, *TWO)
    done = succeeded(
        login.runner("launch", *words, "--controller", controller, "--follow", "--all", hello)
    )
    assert ranks(done.stdout) == [
        ("n1", "0", "2", "3.0", ENVIRONMENT),
        ("n2", "1", "2", "3.0", ENVIRONMENT),
    ]


def test_a_study_measures_the_container_beside_the_environment(
    bookworm: State, login: Login
) -> None:
    runtimes = f"runtime=apptainer,none+image=/scratch/{USER}/hvd"
    words = ("--nodes", "2", "--repeats", "2", "--vary", runtimes, "--study", "rt", "torch_mnist")
    with extra_packages() as extra:
        done = scale(login, extra, *words, "--", "--epochs", "3")
    assert done.returncode == 0, done.stderr + done.stdout
    value = json.loads(login.sh("cat rt/results.json"))
    points = [(point["variant"], point["ranks"]) for point in value["points"]]
    assert points == [("apptainer", 2), ("none", 2)]
    script = login.sh("cat rt/runs/2n-none-r1/job.sbatch")
    assert ENVIRONMENT in script
    assert "apptainer exec" not in script
    assert {comparison["variant"] for comparison in value["comparisons"]} == {"none"}


def test_what_an_environment_cannot_have(bookworm: State, login: Login, hello: str) -> None:
    folder = ENVIRONMENT
    words = ("launch", "--runtime", "none", "--dry-run", "--nodes", "2")
    bound = login.runner(*words, "--image", folder, "--bind", "/home", hello)
    ended(bound, 80, "--bind needs a container")
    empty = login.runner(*words, "--image", login.folder, hello)
    ended(empty, 2, "is not the folder of a virtual or conda environment")


# Cobalt's commands, for a job on the nodes of the Slurm job around them.
COBALT = {
    "qsub": """
export COBALT_NODEFILE=$PWD/nodes
scontrol show hostnames "$SLURM_JOB_NODELIST" > nodes
setsid bash "$1" < /dev/null > /dev/null 2>&1 & echo $! > pid
echo 4711""",
    "cqsub": "exit 1",
    "qstat": """
echo "JobID  State"
kill -0 $(cat pid) 2>/dev/null && echo "4711  running" """,
}


def test_cobalts_script_and_mpirun_with_stand_ins_for_cobalt(
    bookworm: State, login: Login, hello: str
) -> None:
    """The script as rendered, Singularity's name, host MPI, and an mpirun that reads a file."""
    login.sh("mkdir bin")
    for name, text in COBALT.items():
        login.sh(f"chmod +x {login.write(f'bin/{name}', '#!/bin/bash' + chr(10) + text)}")
    job = f"--runtime singularity --image {IMAGE} {' '.join(TWO)} --time 10 --host-mpi"
    said = in_allocation(
        login,
        f"PATH={login.folder}/bin:$PATH",
        f"runner launch --scheduler cobalt {job} --follow --all {hello}",
    )
    prefix = "/opt/horovod"
    assert "runner: host MPI: Open MPI v4.1.4, /host-mpi/libmpi.so.40, 2 ranks" in said
    assert ranks(said) == [("n1", "0", "2", "3.0", prefix), ("n2", "1", "2", "3.0", prefix)]
    assert "-hostfile " in login.sh("cat runs/*/job.sbatch")


def test_another_horovod_and_a_changed_mpi_are_refused(
    bookworm: State, login: Login, hello: str
) -> None:
    """As if the host's MPI had been upgraded since: the label has another checksum."""
    ended(login.runner("build", "env", ENVIRONMENT), 2, "is there already, and not empty")
    label = _label(bookworm)
    record = json.loads(label.read_text(encoding="utf-8"))
    record["labels"]["mpi.sha256"] = "0" * 64
    label.write_text(json.dumps(record), encoding="utf-8")
    done = login.runner("launch", "--runtime", "none", "--image", ENVIRONMENT, *TWO, hello)
    ended(done, 80, "the MPI changed after the Horovod in", "runner build env")


def _label(bookworm: State) -> Path:
    return bookworm.scratch / USER / "hvd" / "horovod-runner.json"
