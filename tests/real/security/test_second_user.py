"""The second user is an ordinary one: what the other tests here rest on."""

from __future__ import annotations

from tests.real.conftest import Login

from .conftest import Stranger, start

SLEEPER = "from time import sleep; print('AWAKE', flush=True); sleep(5); print('DONE')"


def test_bob_is_on_every_node_and_not_in_adas_files(login: Login, bob: Stranger) -> None:
    for node in ("login", "n1", "n2"):
        assert bob.sh("id -un; id -u; id -G", node).split() == ["bob", "1001", "1001"]
    login.sh("umask 077; echo secret > mine")
    assert bob.run("cat", f"{login.folder}/mine").returncode != 0
    assert bob.run("touch", f"{login.folder}/his").returncode != 0


def test_everybody_writes_in_the_shared_folder_and_removes_nothing_there(
    login: Login, bob: Stranger
) -> None:
    path = login.sh("mktemp /scratch/shared/adas.XXXXXX").strip()
    bob.sh("echo > $(mktemp /scratch/shared/bobs.XXXXXX)")
    assert bob.run("rm", "-f", path).returncode != 0
    login.sh(f"rm {path}")


def test_bob_is_on_a_node_while_a_job_of_adas_runs_there(login: Login, bob: Stranger) -> None:
    job = start(login, "--nodes", "2", "--no-gate", login.write("s.py", SLEEPER))
    job.wait_for("AWAKE")
    processes = bob.sh("ps -u ada -o args=", "n2")
    assert "s.py" in processes
    assert bob.run("pkill", "-u", "ada", node="n2").returncode != 0
    assert job.end() == 0
    assert job.log.count("DONE") == 2
