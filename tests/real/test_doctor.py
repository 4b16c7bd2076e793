"""The doctor on the real cluster: a healthy one, and one with faults that were put there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import IMAGE, UNPACKED, Done, Login, on_cluster, succeeded

REFUSED = 80
NO_TRACE = "Traceback"


class Report:
    """What `runner doctor --json` printed."""

    def __init__(self, done: Done) -> None:
        assert NO_TRACE not in done.stderr, done.stderr
        assert done.stdout, done.stderr
        self.code = done.returncode
        self.findings: list[dict[str, Any]] = json.loads(done.stdout)["diagnoses"]

    def of(self, subject: str, name: str) -> dict[str, Any]:
        """Return one finding."""
        found = [f for f in self.findings if (f["subject"], f["name"]) == (subject, name)]
        assert len(found) == 1, self.findings
        return found[0]

    def states(self, subject: str) -> dict[str, str]:
        """Return the state of each finding of a subject."""
        return {f["name"]: f["severity"] for f in self.findings if f["subject"] == subject}


def doctor(login: Login, *words: str, **env: str) -> Report:
    """Run the doctor in a folder of ada's."""
    return Report(login.runner("doctor", "--json", *words, env=env))


def test_a_healthy_machine_with_an_image(login: Login) -> None:
    report = doctor(login, "--image", IMAGE)
    assert report.code == 0
    assert set(report.states("containers").values()) == {"ok"}
    for name in ("runtime", "user namespaces", "building", "running a SIF file"):
        assert report.states("containers")[name] == "ok"
    assert report.of("containers", "running the image")["severity"] == "ok"
    assert "pmix" in report.of("scheduler", "srun --mpi")["what"]
    assert "Slurm 2" in report.of("scheduler", "controller")["what"]
    assert report.of("scheduler", "munge")["severity"] == "ok"
    assert "eth0" in report.of("network", "interfaces")["what"]
    assert report.of("image", "facts")["what"].startswith("Horovod 0.28.1")
    assert report.of("image", "plan")["severity"] == "ok"


# One rank on each node with MPI, whose ranks take a whole CPU each while they wait.
@pytest.mark.parametrize(("controller", "each"), [("gloo", 2), ("mpi", 1)])
def test_a_job_on_two_nodes(login: Login, controller: str, each: int) -> None:
    words = ("--nodes", "2", "--ntasks-per-node", str(each), "--controller", controller)
    report = doctor(login, "--image", IMAGE, "--job", *words)
    assert report.code == 0, report.findings
    assert (
        report.of("world", "ranks")["what"] == f"{2 * each} ranks, distinct, in one process group"
    )
    assert report.of("world", "ranks")["evidence"] == [f"{each} on n1, {each} on n2"]
    assert report.of("world", "places")["severity"] == "ok"
    assert "one digest on 2 nodes" in report.of("world", "image")["what"]
    bandwidth = report.of("job", "allreduce")
    assert bandwidth["severity"] == "ok"
    assert re.fullmatch(r"\d+ MB/s bus bandwidth at 64 MiB", bandwidth["what"])


def test_a_job_of_torch_distributed_on_two_nodes(login: Login) -> None:
    words = ("--nodes", "2", "--controller", "none")
    report = doctor(login, "--image", UNPACKED, "--job", *words)
    assert report.code == 0, report.findings
    assert "ran: torch.distributed on cpu" in report.of("job", "trial")["what"]
    assert report.of("world", "ranks")["what"] == "2 ranks, distinct, in one process group"
    assert report.of("world", "places")["evidence"][-1].endswith("rank 1@n2: local 0 of 1")
    assert report.of("job", "allreduce")["severity"] == "ok"


# Another id in the header, as a build of the same things at another time would have.
ANOTHER_ID = "printf 'another build..' | dd of=$1 bs=1 seek=48 conv=notrunc 2> /dev/null"


@pytest.fixture
def two_images(login: Login) -> Iterator[str]:
    """An image that is another file on node n2 than on the others."""
    image, other = f"{login.folder}/a.sif", f"{login.folder}/b.sif"
    login.sh(f"cp {IMAGE} {image}; cp {IMAGE} {other}; set {other}; {ANOTHER_ID}")
    succeeded(on_cluster(["mount", "--bind", other, image], node="n2", user="root"))
    yield image
    on_cluster(["umount", image], node="n2", user="root")


def test_nodes_that_see_another_image(login: Login, two_images: str) -> None:
    words = ("--image", two_images, "--job", "--nodes", "2", "--controller", "gloo")
    report = doctor(login, *words)
    image = report.of("world", "image")
    assert (report.code, image["severity"]) == (REFUSED, "failure")
    assert "do not see the same image" in image["what"]
    assert report.of("world", "ranks")["severity"] == "ok", "they ran all the same"


def test_a_job_that_waits_is_come_back_to(login: Login) -> None:
    report = doctor(login, "--image", UNPACKED, "--job", "--max-wait", "0", "--controller", "gloo")
    waits = report.of("job", "trial")
    assert (report.code, waits["severity"]) == (0, "warning")
    command = waits["remedies"][0]["text"].split()
    assert command[:3] == ["runner", "doctor", "--run"]
    later = doctor(login, *command[2:])
    assert later.of("world", "ranks")["what"] == "1 rank, distinct, in one process group"


def test_a_job_that_fails_shows_why(login: Login) -> None:
    report = doctor(login, "--image", UNPACKED, "--job", "--env", "OUTPUT_DIR=/nowhere")
    assert report.code == REFUSED
    trial = report.of("job", "trial")
    assert trial["severity"] == "failure"
    assert "opens /nowhere/result.json." in "\n".join(trial["evidence"])
    looks = r"ls -l /nowhere/result\.json\.\w+\.part && runner doctor --bind "
    assert re.match(looks, trial["remedies"][0]["text"])


def test_a_plan_that_cannot_work_is_not_submitted(login: Login) -> None:
    words = ("--image", IMAGE, "--job", "--nodes", "2", "--controller", "mpi", "--mpi", "none")
    report = doctor(login, *words)
    assert report.code == REFUSED
    assert report.of("image", "plan")["severity"] == "failure"
    assert "runner doctor --mpi pmix" in report.of("image", "plan")["remedies"][0]["text"]
    assert login.runs() == []


def test_a_hanging_sinfo_and_variables_that_hurt(login: Login) -> None:
    login.sh("mkdir bin; printf '#!/bin/sh\\nexec sleep 60\\n' > bin/sinfo; chmod +x bin/sinfo")
    path = login.sh("echo $PATH").strip()
    report = doctor(
        login,
        PATH=f"{login.folder}/bin:{path}",
        NCCL_SOCKET_IFNAME="ib0",
        HOROVOD_SIZE="3",
        APPTAINER_BIND="/nowhere",
        PYTHONPATH="/nowhere",
    )
    answers = report.of("scheduler", "answers")
    assert answers["what"].startswith("sinfo: no answer within")
    assert report.of("scheduler", "controller")["severity"] == "ok", "the others were asked"
    assert report.of("environment", "HOROVOD_SIZE")["severity"] == "warning"
    assert report.of("environment", "PYTHONPATH")["severity"] == "ok"
    # A mount that is not there stops every container, and the doctor tried.
    start = report.of("containers", "running a SIF file")
    assert (start["severity"], report.code) == ("failure", REFUSED)
    assert start["remedies"][0]["text"].startswith("unset APPTAINER_BIND")


@pytest.fixture
def dead_interface() -> Iterator[str]:
    """An interface of the login node with an address and no link."""

    def ip(*words: str) -> None:
        succeeded(on_cluster(["ip", *words], user="root"))

    ip("link", "add", "dead0", "type", "veth", "peer", "name", "dead1")
    ip("address", "add", "10.99.0.1/24", "dev", "dead0")
    yield "dead0"
    ip("link", "delete", "dead0")


def test_an_interface_that_is_down(login: Login, dead_interface: str) -> None:
    found = doctor(login).of("network", "dead interfaces")
    assert found["severity"] == "warning"
    assert dead_interface in found["what"]
    assert "--network-interfaces eth0" in found["remedies"][0]["text"]
