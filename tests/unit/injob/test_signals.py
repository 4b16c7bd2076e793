"""Signals and the shim: they reach the trainer, and one that stops early is no failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import runners.injob.rank
from runners.contract import failure_kinds as kinds
from runners.injob.rank import signals

from . import shim

RANK = Path(runners.injob.rank.__file__).parent
STARTED = "import os; open(f'started-{os.getpid()}', 'w').close(); time.sleep(30)"
SAVES = """
import signal, sys, time
def save(number, frame):
    print("asked by", signal.Signals(number).name)
    sys.exit(91)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, save)
"""
SOON = """
from runners.injob.rank import signals, start
signals.SECONDS_BETWEEN_LOOKS = 0.1
sys.exit(start.main(sys.argv[1:]))
"""
ENDED = '{"state": "NODE_FAIL", "exit_code": 143}'
DOES_NOT = "import time\n"


def interrupted(folder: Path, text: str, number: int, tasks: int = 1, module: bool = False) -> str:
    """Run a trainer in the shim, send a signal when it has started; return code and output."""
    (folder / "train.py").write_text(text)
    options = shim.LOCAL if tasks == 1 else ("--tasks", str(tasks), "--controller", "gloo")
    running = subprocess.Popen(
        shim.command(folder, *options, trainer=("-m", "train") if module else ("train.py",)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, **shim.ALONE, "PYTHONPATH": str(folder)},
    )
    wait_for(folder, tasks)
    running.send_signal(number)
    output = running.communicate(timeout=20)[0]
    return f"{running.returncode} {output}"


def wait_for(folder: Path, tasks: int) -> None:
    deadline = time.monotonic() + 20
    while len(list(folder.glob("started-*"))) < tasks:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_trainer_that_saves_and_stops_is_no_failure(tmp_path: Path, number: int) -> None:
    """Its task ends with 0, or the launcher would end rank 0 while it writes."""
    told = interrupted(tmp_path, SAVES + STARTED, number)
    assert told.startswith("0 ")
    assert f"asked by {signal.Signals(number).name}" in told
    assert "failed" not in told
    assert json.loads((tmp_path / "stopped.json").read_text())["rank"] == 0
    assert not (tmp_path / "failures").exists()


def test_all_tasks_of_one_machine_get_the_signal(tmp_path: Path) -> None:
    told = interrupted(tmp_path, SAVES + STARTED, signal.SIGUSR1, tasks=2)
    assert told.startswith("0 ")
    assert told.count("asked by SIGUSR1") == 2


def test_a_users_own_trainer_that_knows_no_signals_is_told_so(tmp_path: Path) -> None:
    told = interrupted(tmp_path, DOES_NOT + STARTED, signal.SIGUSR1)
    assert told.startswith("138 ")
    assert "SIGUSR1), the request to save and stop, which the trainer does not handle" in told
    assert not (tmp_path / "stopped.json").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_recipe_that_has_not_begun_has_nothing_to_lose(tmp_path: Path, number: int) -> None:
    told = interrupted(tmp_path, DOES_NOT + STARTED, number, module=True)
    assert told == "0 "
    assert (tmp_path / "stopped.json").exists()


def test_a_recipe_whose_peers_were_stopped_in_start_up_does_not_blame_them() -> None:
    recipe, asked = ["-m", "recipes.x"], {int(signal.SIGUSR1)}
    assert signals.ended_before_training(recipe, False, 82, asked)
    assert not signals.ended_before_training(recipe, True, 1, asked)  # a failure while saving
    assert not signals.ended_before_training(recipe, False, 1, set())
    assert not signals.ended_before_training(["train.py"], False, 143, {int(signal.SIGTERM)})


STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"


def test_where_another_rank_has_failed_nobody_waits_for_a_trainer_that_cannot_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures/rank-1.json").write_text("{}")
    began = time.monotonic()
    told = interrupted(tmp_path, STUBBORN + STARTED, signal.SIGTERM)
    assert time.monotonic() - began < 15  # it sleeps for 30
    assert told.startswith("143 ")
    assert "ended because another rank had failed" in told
    record = json.loads((tmp_path / "failures/rank-0.json").read_text())
    assert kinds.follows(record["kind"], record)


def test_a_trainer_does_not_outlive_its_shim(tmp_path: Path) -> None:
    told = interrupted(tmp_path, STUBBORN + STARTED, signal.SIGKILL)
    assert told.startswith("-9 ")
    trainer = int(next(tmp_path.glob("started-*")).name.partition("-")[2])
    deadline = time.monotonic() + 10
    while Path(f"/proc/{trainer}").exists() and not is_zombie(trainer):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_signal_before_there_is_a_trainer_waits_for_it(tmp_path: Path) -> None:
    text = (
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(RANK.parents[2])!r})\n"
        "from runners.injob.rank import signals\n"
        "signals.hold()\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signals.let_in()\n"
        "    signal.pause()\n"
        "relay = signals.Relay(child, lambda: False, lambda: child)\n"
        "print(os.WTERMSIG(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{signal.SIGUSR1.value}\n", done.stderr


@pytest.mark.parametrize("name", ["exit.json", "job.json"])
def test_a_rank_whose_job_has_ended_without_it_ends_too(tmp_path: Path, name: str) -> None:
    """The record of an earlier start ends nobody, and the end is no failure of this rank's."""
    record = tmp_path / name
    record.write_text(ENDED)
    os.utime(record, (1, 1))
    (tmp_path / "train.py").write_text(DOES_NOT + STARTED)
    text = f"import sys; sys.path.insert(0, {str(RANK.parents[2])!r})\n" + SOON
    running = subprocess.Popen(
        [sys.executable, "-c", text, *shim.LOCAL, "--run-dir", str(tmp_path), "--", "train.py"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **shim.ALONE},
    )
    wait_for(tmp_path, 1)
    time.sleep(0.5)
    assert running.poll() is None
    record.write_text(ENDED)
    output = running.communicate(timeout=20)[0]
    assert running.returncode == 128 + signal.SIGKILL
    assert "the job has ended without this rank" in output
    assert not (tmp_path / "failures").exists()
