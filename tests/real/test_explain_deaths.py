"""`runner explain` for what Slurm, the kernel and other people end: each is really caused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.design import MEMORY, PREEMPTION
from tests.cluster.state import State

from .beside import cluster
from .conftest import UNPACKED, Login, new_folder, on_cluster, succeeded

ON_RANK_1 = """
import ctypes, os, sys, time
print("started", flush=True)
time.sleep(1)
if os.environ["SLURM_PROCID"] == "1":
    {act}
time.sleep(120)
"""
WAITS = "import time; print('started', flush=True); time.sleep(120)"
LATE = """
import time
import horovod.torch as hvd
import torch
hvd.init()
if hvd.rank() == 1:
    time.sleep(120)
hvd.allreduce(torch.ones(1), name="loss")
"""
# Name of the signature -> options and trainer
JOBS: dict[str, tuple[list[str], str]] = {
    "rank-killed": ([], ON_RANK_1.format(act="os.kill(os.getpid(), 9)")),
    "rank-crashed": ([], ON_RANK_1.format(act="ctypes.string_at(0)")),
    "out-of-memory": (["--mem", "400"], ON_RANK_1.format(act="eaten = bytearray(2 * 2**30)")),
    "stopped-early": ([], "import sys; sys.exit(91)"),
    "signal-not-handled": (["--signal", "USR1@30"], WAITS),
    "cancelled": ([], WAITS),
    "stall": (["--env", "HOROVOD_STALL_CHECK_TIME_SECONDS=2"], LATE),
}


@pytest.fixture(scope="module")
def login() -> Iterator[Login]:
    """An empty folder of ada's on a cluster with limits of memory that preempts."""
    design = State.locate(None).design
    if design.has(MEMORY) and design.has(PREEMPTION):
        yield from folder()
    else:
        with cluster("--quirk", MEMORY, "--quirk", PREEMPTION):
            yield from folder()


def folder() -> Iterator[Login]:
    name = new_folder()
    yield Login(name, UNPACKED)
    on_cluster(["rm", "-rf", name])


def launch(login: Login, name: str, *options: str, trainer: str) -> str:
    """Submit a job of that name on both nodes; return its number."""
    file = login.write(f"{name}.py", trainer)
    return succeeded(login.launch("-N", "2", "--parsable", *options, file)).stdout.strip()


def until(login: Login, condition: str, seconds: int = 120) -> None:
    login.sh(f"for i in $(seq {seconds * 5}); do {condition} && exit; sleep 0.2; done; exit 9")


def told(login: Login, id: str) -> Any:
    """What `runner explain` says of a job that has ended, and with which code `wait` ends."""
    code = login.runner("wait", id).returncode
    return {**login.why(id), "code": code}


@pytest.fixture(scope="module")
def explained(login: Login) -> dict[str, dict[str, Any]]:
    """All of JOBS at once, on which four of them are acted from outside."""
    ids = {name: launch(login, name, *job[0], trainer=job[1]) for name, job in JOBS.items()}
    for name in ("signal-not-handled", "cancelled"):
        until(login, f"grep -qs started runs/{name}-1/logs/job.log")
    login.sh(f"scancel --batch --signal=USR1 {ids['signal-not-handled']}")
    login.runner("cancel", ids["cancelled"])
    until(login, "grep -qs 'Missing ranks' runs/stall-1/logs/job.log")
    login.runner("cancel", ids["stall"])
    return {name: told(login, id) for name, id in ids.items()}


@pytest.mark.parametrize("name", JOBS)
def test_each_end_has_its_name(explained: dict[str, dict[str, Any]], name: str) -> None:
    said = explained[name]
    assert said["id"] == name, said
    assert said["evidence"], said
    assert said["remedies"], said
    if name in ("rank-killed", "rank-crashed", "out-of-memory"):
        assert (said["rank"], said["host"]) == (1, "n2")
    if name == "rank-killed":
        assert said["code"] == 137


def test_the_fix_fits_the_end(explained: dict[str, dict[str, Any]]) -> None:
    assert "--mem 800M" in explained["out-of-memory"]["remedies"][0]["text"]
    assert "rank 1," in explained["stall"]["what"]
    assert "--signal" not in explained["signal-not-handled"]["remedies"][0]["text"]


def test_a_job_that_made_way_and_one_that_lost_its_node(login: Login) -> None:
    low = launch(login, "low", "-p", "low", trainer=WAITS)
    until(login, "grep -qs started runs/low-1/logs/job.log")
    login.sh("sbatch -p high -N 2 --exclusive -o /dev/null --wrap 'sleep 1'")
    said = told(login, low)
    assert said["id"] == "preempted", said
    assert "--requeue" not in said["remedies"][0]["text"], "it is offered to what does not save"

    lost = launch(login, "lost", trainer=WAITS)
    until(login, "[ $(grep -cs started runs/lost-1/logs/job.log) = 2 ]")
    on_cluster(["bash", "-c", "kill -9 $(pgrep -x slurmd)"], node="n2", user="root")
    said = told(login, lost)
    assert (said["id"], said["host"]) == ("node-lost", "n2"), said
    on_cluster(["slurmd"], node="n2", user="root")
    deadline = time.monotonic() + 60
    while "down" in login.sh("sinfo -h -o %T -n n2"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
