"""A node's slurmstepd is killed: srun would wait for its ranks until the time limit."""

from __future__ import annotations

import time

import pytest

from .conftest import Login, on_cluster, succeeded

pytestmark = pytest.mark.unpacked
PROFILE = """
base = "slurm"
title = "A site"
step_end_seconds = 15

[sources]
step_end_seconds = { text = "a test", date = "2026-11-28" }
"""
# Rank 0 fails when rank 1 is lost, as a collective operation does.
TRAINER = """
import os, sys, time
print("STARTED", flush=True)
while not os.path.exists("lost"):
    time.sleep(0.2)
if os.environ["RANK"] == "0":
    time.sleep(1)
    raise RuntimeError("Connection closed by peer")
time.sleep(600)
"""
STEPD = r"pkill -KILL -f 'slurmstepd: \[{id}\.0\]'"


def test_the_script_ends_the_step_with_the_failure_on_record(login: Login) -> None:
    login.sh("mkdir sites")
    login.write("sites/mine.toml", PROFILE)
    env = {"RUNNER_SITES_PATH": f"{login.folder}/sites"}
    words = ("--site", "mine", "--nodes", "2", "--controller", "none", "--no-gate", "--time", "10")
    done = login.launch(*words, "--parsable", login.write("t.py", TRAINER), env=env)
    id = succeeded(done).stdout.strip()
    login.sh("timeout 120 sh -c 'until [ $(cat runs/*/logs/job.log | grep -c STARTED) = 2 ]; do "
             "sleep 0.2; done'")  # fmt: skip
    killed = on_cluster(["bash", "-c", STEPD.format(id=id)], user="root", node="n2")
    assert killed.returncode == 0, killed.stderr
    login.sh("touch lost")
    began = time.monotonic()
    code = login.runner("wait", id, env=env).returncode
    on_cluster(["scontrol", "update", "nodename=n2", "state=resume"], user="root")
    log = login.sh("cat runs/*/logs/job.log")
    assert time.monotonic() - began < 180, log
    assert code == 1, log
    assert "its step does not end: the script ends it" in log
    # Brackets: this command has the word too.
    gone = "timeout 90 sh -c 'while pgrep -u ada -f [i]njob; do sleep 1; done'"
    succeeded(on_cluster(["bash", "-c", gone], node="n2"))  # the rank that Slurm has lost
    cause = login.why(id, env=env)
    assert (cause["rank"], "Connection closed by peer" in cause["what"]) == (0, True), cause
