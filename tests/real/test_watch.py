"""Looking at jobs: state, log, waiting, cancelling, results; the cluster has no sacct."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from .conftest import Login, ended, new_folder, on_cluster, succeeded

pytestmark = pytest.mark.unpacked

WAITING = "import sys, time; print('started', flush=True); time.sleep(int(sys.argv[1]))"


def start(login: Login, seconds: int, *words: str) -> str:
    """Start a job that waits; return its number."""
    trainer = login.write("wait.py", WAITING)
    return succeeded(login.launch("--parsable", *words, trainer, "--", str(seconds))).stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def old() -> Iterator[tuple[Login, str, str]]:
    """A job that reaches its time limit, and one that has ended by then; they start first.

    Slurm's shortest limit is a minute, which its administrator cuts here, and it looks at limits
    twice a minute; it forgets a job MinJobAge after its end. The other tests of this file run
    meanwhile.
    """
    login = Login(new_folder())
    late, early = start(login, 300, "--time", "1"), start(login, 0)
    login.sh("until grep -qs started runs/wait-1/logs/job.log; do sleep 0.2; done")
    succeeded(on_cluster(["scontrol", "update", f"JobId={late}", "EndTime=now+5"], user="root"))
    yield login, late, early
    on_cluster(["rm", "-rf", login.folder])


def test_a_life_in_states(login: Login) -> None:
    id = start(login, 3, "--sbatch-arg=--begin=now+5")
    assert login.told("status", id)["state"] == "PENDING"
    assert login.runner("logs", id).returncode == 2  # there is none yet
    succeeded(login.runner("wait", id))
    assert login.told("status", id)["state"] == "COMPLETED"
    assert "started" in login.runner("logs", id).stdout


def test_cancel(login: Login) -> None:
    id = start(login, 60)
    assert login.runner("cancel", id).returncode == 0
    assert login.told("status", id)["state"] == "CANCELLED"
    assert login.runner("wait", id).returncode == 86
    ended(login.runner("cancel", id), 2, "ended already")
    deadline = time.monotonic() + 30
    while login.sh(f"squeue -h -j {id} -t R,PD || true").strip():
        assert time.monotonic() < deadline


def test_cancel_without_scheduler(login: Login) -> None:
    id = start(login, 60, "--scheduler", "local")
    assert login.told("status", id)["state"] == "RUNNING"
    assert login.runner("cancel", id).returncode == 0
    deadline = time.monotonic() + 20
    while "wait.py" in login.sh("ps -u ada -o args || true"):
        assert time.monotonic() < deadline


def test_list_shows_every_run_and_its_end(login: Login) -> None:
    good = start(login, 0)
    trainer = login.write("bad.py", "raise SystemExit(3)")
    bad = login.launch("--parsable", trainer).stdout.strip()
    assert [login.runner("wait", id).returncode for id in (good, bad)] == [0, 3]
    rows = {row["id"]: row for row in login.told("list")}
    assert rows[good]["state"] == "COMPLETED"
    assert (rows[bad]["state"], rows[bad]["exit_code"]) == ("FAILED", 3)
    shown = login.runner("list").stdout
    assert good in shown
    assert bad in shown


def test_logs_of_one_rank_and_follow(login: Login) -> None:
    id = start(login, 2, "-N", "2", "--no-gate")
    followed = succeeded(login.runner("logs", "--follow", "--rank", "1", id))
    assert "1@n2 | started" in followed.stdout
    assert "0@n1 | started" not in followed.stdout
    assert login.runner("logs", "--all", id).stdout.count("| started") == 2


def test_output_goes_where_the_user_says(login: Login) -> None:
    id = start(login, 0, "--output", "my-%x-%j.log")
    login.runner("wait", id)
    assert "started" in login.sh(f"cat my-wait-{id}.log")
    assert "started" in login.runner("logs", id).stdout


def test_a_job_that_left_no_record_is_not_called_well(login: Login) -> None:
    id = start(login, 0)
    login.runner("wait", id)
    login.sh(
        f'rm runs/*/exit.json; sed -i \'s/"id": "{id}"/"id": "1"/; s/COMPLETED//\' runs/*/job.json'
    )
    assert login.told("status", "1")["state"] == "UNKNOWN"
    assert login.runner("wait", "1").returncode == 88
    assert login.why("1")["id"] == "no-record"


def test_ctrl_c_leaves_the_job_running(login: Login) -> None:
    id = start(login, 20)
    done = login.run("timeout", "--signal=INT", "2", "runner", "logs", "--follow", id)
    assert done.returncode in (124, 130)
    assert f"left job {id}, which goes on" in done.stderr
    assert f"end it: runner cancel {id}" in done.stderr
    assert login.told("status", id)["state"] == "RUNNING"
    login.runner("cancel", id)


def test_launch_for_programs(login: Login) -> None:
    trainer = login.write("wait.py", WAITING)
    done = login.launch("--json", "--wait", trainer, "--", "0")
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["exit_code"], answer["result"]) == ("COMPLETED", 0, None)
    assert login.sh(f"ls {answer['folder']}/job.sbatch")


def test_time_limit_and_a_job_that_slurm_has_forgotten(old: tuple[Login, str, str]) -> None:
    login, late, early = old
    assert login.runner("wait", late).returncode == 83
    assert login.why(late)["id"] == "time-limit"
    assert "--time 00:02:00" in login.why(late)["remedies"][0]["text"]
    assert login.why(late)["remedies"][1:] == [], "the trainer saves nothing"
    deadline = time.monotonic() + 150
    while early in login.sh("squeue -h --states=all -o %i"):
        assert time.monotonic() < deadline
        time.sleep(5)
    login.sh("! sacct 2>/dev/null")
    assert login.told("status", early)["state"] == "COMPLETED"
    assert login.told("status", late)["state"] == "TIMEOUT"
