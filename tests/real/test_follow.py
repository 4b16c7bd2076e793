"""Following jobs: the queue, a terminal with its bar and Ctrl-C, live tables, another node."""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import replace

import pytest

from runners.core.job_record import JOB_FORM

from .conftest import FEW_THREADS, IMAGE, Done, Login, on_cluster, succeeded
from .terminal import CTRL_C, terminal

pytestmark = pytest.mark.unpacked

STEPS = """
import os, sys, time
print("RANK", os.environ.get("SLURM_PROCID", 0), flush=True)
steps = int(sys.argv[1])
for step in range(1, steps + 1):
    print(f"  step {step}/{steps}  epoch 1  loss 0.1  99 samples/s  0:01 left", flush=True)
    time.sleep(0.2)
print("[done]")
"""
FULL = ("-N", "2", "--ntasks-per-node", "1", "-c", "8")  # all CPUs of both nodes


def start(login: Login, steps: int, *words: str) -> str:
    """Submit a trainer that takes a fifth of a second for each step; return the job's number."""
    trainer = login.write("steps.py", STEPS)
    return succeeded(login.launch("--parsable", *words, trainer, "--", str(steps))).stdout.strip()


def test_a_terminal_shows_a_bar_and_ctrl_c_asks(login: Login) -> None:
    trainer = login.write("steps.py", STEPS)
    words = ("runner", "launch", "--image", IMAGE, "-N", "2", "--follow", trainer, "--", "300")
    with terminal(login, *words) as screen:
        id = screen.see(r"job (\d+) submitted")[1]
        screen.see("0@n1 | RANK 0")
        screen.see(rf"job {id} running on n\[1-2\], [\d:]+ to its limit .*/300  epoch 1")
        screen.type(CTRL_C)
        screen.see("follow on: ")
        screen.type("\n")
        screen.see("/300  epoch 1")
        screen.type(CTRL_C)
        screen.see(r"\[d\] leave it")
        screen.type("d")
        screen.see(f"left job {id}, which goes on; come back: runner logs --follow {id}")
        assert screen.end() == 130
    # The same job once more: another rank's lines, no colours, and then it is cancelled.
    with terminal(
        login, "runner", "logs", "-f", "--rank", "1", id, env={"NO_COLOR": "1"}
    ) as screen:
        screen.see(r"1@n2 \| RANK 1")
        screen.see("/300  epoch 1")
        screen.type(CTRL_C)
        screen.see("follow on: ")
        screen.type("c")
        screen.see(f"job {id} cancelled")
        assert screen.end() == 86
        assert "0@n1 |" not in screen.everything
        assert not re.search(r"\x1b\[[\d;]*3\dm", screen.raw), "a colour"
    assert login.told("status", id)["state"] == "CANCELLED"


def test_the_queue_is_shown_and_all_that_waits_is_told_by_one_call(login: Login) -> None:
    """Two jobs wait for one that has all nodes, a third for the second."""
    login.sh("mkdir bin")
    running = start(login, 300, *FULL)
    first = start(login, 1, *FULL, "-t", "5")
    second = start(login, 1, *FULL, "-t", "5")
    third = start(login, 1, "-t", "5", "--dependency", f"afterok:{second}")
    followed = login.run("timeout", "-s", "INT", "4", "runner", "logs", "-f", second)
    assert "pending (" in followed.stderr
    assert re.search("; [12] jobs? before it", followed.stderr), followed.stderr
    assert f"end it: runner cancel {second}" in followed.stderr
    login.write("bin/squeue", '#!/bin/sh\necho "$*" >> calls\nexec /usr/bin/squeue "$@"')
    login.sh("chmod +x bin/squeue; PATH=$PWD/bin:$PATH runner list --json > rows")
    calls = login.sh("wc -l < calls; cat rows")
    count, rows = calls.split("\n", 1)
    assert count.strip() == "1"
    told = {row["id"]: row for row in json.loads(rows)}
    assert told[running]["nodes"] == "n[1-2]"
    assert told[running]["left"] > 3000
    assert told[running]["elapsed"] < 120
    assert told[first]["why"] in (
        "it is next, and waits for free nodes",
        "other jobs are before it",
    )
    assert told[third]["reason"] == "Dependency"
    assert told[third]["why"] == "another job has to end first"
    for id in (third, second, first, running):
        assert login.runner("cancel", id).returncode == 0


def elsewhere(login: Login, *words: str) -> Done:
    """Run `runner` in the same folder on another node."""
    settings = [f"{name}={value}" for name, value in FEW_THREADS.items()]
    return on_cluster(["env", "-C", login.folder, *settings, "runner", *words], node="n2")


def test_from_another_node(login: Login) -> None:
    """The folder is shared; a process of the other machine is not taken for one that has ended."""
    here = start(login, 300, "--scheduler", "local")
    id = start(login, 100)
    login.sh("until grep -qs RANK runs/steps-2/logs/job.log; do sleep 0.2; done")
    assert json.loads(elsewhere(login, "status", "--json", id).stdout)["state"] == "RUNNING"
    followed = succeeded(elsewhere(login, "logs", "--follow", id))
    assert "[done]" in followed.stdout
    local = json.loads(elsewhere(login, "status", "--json", here).stdout)
    assert local["state"] == "UNKNOWN"
    assert local["why"] == "it was started on login, and can be seen only there"
    ours = login.told("status", here)
    assert (ours["state"], ours["nodes"]) == ("RUNNING", "login")
    login.runner("cancel", here)


def test_a_job_that_slurm_forgot_while_it_ran(login: Login) -> None:
    """Nobody looked between its start and MinJobAge after its end; there is no accounting."""
    id = start(login, 0)
    deadline = time.monotonic() + 60
    while "exit.json" not in login.sh("ls runs/steps-1"):
        assert time.monotonic() < deadline
    login.sh(f'sed -i \'s/"id": "{id}"/"id": "1"/\' runs/steps-1/job.json')
    told = login.told("status", "1")
    assert (told["state"], told["exit_code"]) == ("COMPLETED", 0)
    assert told["elapsed"] < 60


MANY = """
import json, os, sys
for number in range(1, 1001):
    folder = f"runs/train-{number}"
    os.makedirs(folder)
    job = {"form": int(sys.argv[1]), "id": str(number), "name": "train",
           "scheduler": "slurm", "log": "",
           "submitted": float(number), "state": "COMPLETED", "nodes": "n[1-2]",
           "elapsed": 61.0}
    line = {"event": "step", "steps": 100, "epoch": 1, "loss": 0.5, "samples_per_s": 812.3,
            "time": "2026-11-21T20:00:00.500+00:00"}
    with open(f"{folder}/job.json", "w") as file: json.dump(job, file)
    with open(f"{folder}/exit.json", "w") as file: file.write('{"exit_code": 0, "time": 1}')
    with open(f"{folder}/metrics.jsonl", "w") as file:
        file.writelines(json.dumps({**line, "step": step}) + "\\n" for step in range(1, 101))
"""


def test_a_thousand_runs_are_listed(login: Login) -> None:
    login.run("python3", login.write("many.py", MANY), str(JOB_FORM))
    lines = login.sh("runner list").splitlines()
    assert len(lines) == 1001
    assert re.search(r"1000 +train-1000 +completed +n\[1-2\] +1:01 +100/100", lines[-1])


PEAK = """
import resource, subprocess, sys
with open("shown", "w") as out:
    code = subprocess.run(sys.argv[1:], stdout=out).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def test_a_large_log_is_never_held_in_memory(login: Login) -> None:
    id = start(login, 0)
    login.runner("wait", id)
    line = "@n1 | " + "x" * 90
    login.sh(f"awk 'BEGIN {{ for (i = 0; i < 1500000; i++) print i % 4 \"{line}\" }}' > log")
    login.sh("cat log >> runs/steps-1/logs/job.log; rm log")
    peak = login.write("peak.py", PEAK)
    for words in (["--rank", "3"], ["--all"], ["--all", "--tail", "1000"]):
        code, mebibytes = login.sh(
            shlex.join(["python3", peak, "runner", "logs", *words, id])
        ).split()
        assert code == "0"
        assert int(mebibytes) < 64, words
    assert login.sh("wc -l < shown").strip() == "1000"
    followed = succeeded(login.runner("logs", "--follow", "--rank", "3", "--tail", "2", id))
    assert followed.stdout.count("3@n1 | xxx") == 2


def test_runs_side_by_side(login: Login) -> None:
    """A whole run followed to its result, and what differs from one with another rate."""
    login = replace(login, image=IMAGE)  # a folder has no digest
    lengths = ("--epochs", "1", "--log-interval", "5")
    other = login.launch(
        "--parsable", "-N", "2", "torch_mnist", "--", *lengths, "--base-lr", "0.02"
    )
    followed = succeeded(login.launch("-N", "1", "--follow", "torch_mnist", "--", *lengths))
    assert re.search(r"^0@n1 \|   step 5/\d+ ", followed.stdout, re.MULTILINE)
    assert re.search(r"^accuracy +0\.\d+", followed.stdout, re.MULTILINE)
    assert login.runner("wait", other.stdout.strip()).returncode == 0
    done = succeeded(login.runner("compare", "torch_mnist-1", "torch_mnist-2"))
    header, *lines = (re.split(r" {2,}", line) for line in done.stdout.splitlines())
    rows = {line[0]: dict(zip(header, line)) for line in lines}
    assert {run: row["--base-lr"] for run, row in rows.items()}["torch_mnist-1"] == "0.02"
    assert {run: row["world_size"] for run, row in rows.items()} == {
        "torch_mnist-1": "2", "torch_mnist-2": "1",
    }  # fmt: skip
    assert {row["state"] for row in rows.values()} == {"completed"}
    assert {"accuracy", "loss", "startup_seconds", "elapsed_seconds"} <= set(header)
    assert "--epochs" not in header
    assert f"best accuracy: {lines[0][0]}" in done.stderr
    assert "changes are against it" in done.stderr
    assert "settings agree" in done.stderr
    whole = login.told("compare", "torch_mnist-1", "torch_mnist-2")
    assert {"--base-lr", "world_size", "hosts"} <= set(whole["differ"])
    assert len({run["settings"]["image digest"] for run in whole["runs"]}) == 1
    last = login.told("status")
    assert last["loss"] is not None
    assert last["rate"] > 0
    assert last["unit"] == "samples"
