"""Another user listens on the port that is held for a rank's server: the job ends, and says why."""

from __future__ import annotations

import json

import pytest

from tests.real.conftest import Login

from .conftest import Stranger, start

TRAINER = """
import json, os, time
place = os.environ["MASTER_PORT"]
if "TF_CONFIG" in os.environ:
    found = json.loads(os.environ["TF_CONFIG"])
    place = found["cluster"]["worker"][found["task"]["index"]]
print("PORT", place.rpartition(":")[2], "END", flush=True)
time.sleep(600)
"""
LISTEN = """
import socket, sys, time
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.bind(("", int(sys.argv[1])))
sock.listen()
sock.settimeout(100)
print("LISTENS", flush=True)
try:
    sock.accept()
    print("HEARD", flush=True)
except TimeoutError:
    pass
"""


@pytest.mark.parametrize(
    ("words", "rank", "node"),
    [
        ((), 0, "n1"),
        (("--tf-config",), 1, "n2"),
        (("--tf-config", "--apptainer-arg=--fakeroot"), 1, "n2"),
    ],
)
def test_a_listener_of_another_user_ends_the_job_with_that_cause(
    login: Login, bob: Stranger, words: tuple[str, ...], rank: int, node: str
) -> None:
    trainer = login.write("train.py", TRAINER)
    job = start(login, "--nodes", "2", "--controller", "none", *words, trainer)
    label = f"{rank}@{node} | PORT "
    job.wait_for(label)
    job.wait_for("END")
    port = job.log.partition(label)[2].split()[0]
    listen = bob.write("listen.py", LISTEN)
    bob.start(f"exec python3 {listen} {port} > said 2>&1", node)
    assert job.end() != 0
    said = login.why(job.id)
    assert (said["id"], said["rank"], said["host"]) == ("port-taken", rank, node), said
    assert f"another user of {node} listens on port {port}" in said["what"]
    assert said["remedies"][0]["text"].startswith("runner launch --nodes 2")
    assert bob.sh("cat said").strip() == "LISTENS"


def test_the_ports_of_a_job_are_other_ones_each_time(login: Login) -> None:
    """Nobody can take them in advance; and a job that is submitted again by hand finds its own."""
    trainer = login.write("train.py", "import os\nprint('PORT', os.environ['MASTER_PORT'])\n")
    job = start(login, "--nodes", "2", "--controller", "none", "--no-gate", trainer)
    assert job.end() == 0, job.log
    places = [json.loads(login.sh(f"cat {job.folder}/rendezvous.json"))["places"]]
    assert login.sh(f"stat -c %a {job.folder}/rendezvous.json").strip() == "600"
    login.sh(f"sbatch --wait {job.folder}/job.sbatch")
    places.append(json.loads(login.sh(f"cat {job.folder}/rendezvous.json"))["places"])
    assert places[0] != places[1]
    assert job.log.count("| PORT ") >= 2
