"""`runner list`, `status` and `cancel`: what they say of runs that ended, or lie elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli.runs.cancel import cancel_command
from runners.cli.runs.list import list_command
from runners.cli.runs.status import status_command
from runners.core.errors import NotFound, SystemFault, UsageError
from runners.core.job_record import Job, JobPaths, JobState
from runners.core.model import SchedulerName
from runners.injob import problems
from runners.jobs import find_run
from runners.schedulers import slurm

from .. import sentences
from ..failures import leave, words
from ..in_process import runner


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def a_run(folder: Path, id: str, state: str, code: int | None = None) -> JobPaths:
    folder.mkdir(parents=True)
    paths = JobPaths(folder)
    Job(id, "job", SchedulerName.SLURM, str(paths.log), 1.0, state).save(paths)
    if code is not None:
        paths.exit.write_text(f'{{"exit_code": {code}, "time": 1}}')
    return paths


def listed(folder: Path) -> str:
    done = CliRunner().invoke(list_command, ["--runs-dir", str(folder)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_list_has_the_exit_code_of_wait_and_why_a_run_failed(tmp_path: Path) -> None:
    bad = a_run(tmp_path / "runs/bad-1", "41", "FAILED", 143)
    leave(bad, 1, 10.0, words("ValueError: boom"), 7)
    leave(bad, 0, 9.0, problems.of_process(143, []), 143)
    a_run(tmp_path / "runs/off-1", "42", "CANCELLED", 135)
    text = listed(tmp_path / "runs")
    (row,) = [line for line in text.splitlines() if line.startswith("41")]
    assert "  7  " in row
    assert "143" not in row
    assert "rank 1@n1" in row
    assert "ValueError: boom" in row
    (row,) = [line for line in text.splitlines() if line.startswith("42")]
    assert row.split() == ["42", "off-1", "cancelled", "86"]


NAMES = (
    "id name state reason why restarts exit_code submitted start_expected nodes elapsed left "
    "folder varied step steps epoch loss rate unit"
)


def test_programs_find_the_same_names_in_json_whatever_is_known(tmp_path: Path) -> None:
    stopped = a_run(tmp_path / "job-1", "41", "STOPPED", 91)
    done = CliRunner().invoke(list_command, ["--runs-dir", str(tmp_path), "--json"])
    (listed,) = json.loads(done.stdout)
    assert " ".join(listed) == NAMES
    assert listed["folder"] == str(stopped.root)
    assert (listed["state"], listed["exit_code"], listed["loss"]) == ("STOPPED", 91, None)
    done = CliRunner().invoke(status_command, [str(stopped.root), "--json"])
    one = json.loads(done.stdout)
    assert " ".join(one) == f"{NAMES} saved_step go_on first_to_fail"
    assert {name: one[name] for name in listed} == listed


@pytest.fixture
def soon() -> Iterator[None]:
    """End with a traceback what waits for 30 s."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", ["logs/job.log", "metrics.jsonl"])
@pytest.mark.parametrize("command", ["explain", "status"])
def test_a_pipe_in_a_run_of_another_user_is_not_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
) -> None:
    paths = a_run(tmp_path / "runs/bad-1", "41", "FAILED", 1)
    (paths.root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(paths.root / name)
    done = runner(monkeypatch, capsys, command, str(paths.root))
    assert "41" in done.stdout or "not a regular file" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("failures/rank-0.json", '{"rank": 0}'), ("weights.json", "[1]"), ("exit.json", "[]")],
)
def test_a_damaged_record_is_named(tmp_path: Path, name: str, text: str) -> None:
    paths = a_run(tmp_path / "runs/bad-1", "41", "FAILED")
    paths.failures.mkdir()
    (paths.root / name).write_text(text)
    done = CliRunner().invoke(status_command, [str(paths.root)])
    assert isinstance(done.exception, SystemFault)
    assert str(paths.root) in str(done.exception)


def test_status_warns_of_weights_that_differ_though_they_were_not_checked(tmp_path: Path) -> None:
    paths = a_run(tmp_path / "runs/pipeline-1", "41", "COMPLETED")
    value = {"version": 1, "result": "not-checked", "text": "a pipeline", "warning": "they differ"}
    paths.weights.write_text(json.dumps(value))
    done = CliRunner().invoke(status_command, [str(paths.root), "--json"])
    assert json.loads(done.stdout)["weights"] == "not-checked: a pipeline; warning: they differ"


def test_a_job_that_was_cancelled_waits_for_nothing() -> None:
    told = slurm.parse_squeue("42|CANCELLED|Resources|0||0:00|1:00|N/A|\n")["42"]
    assert (told.state, told.reason) == (JobState.CANCELLED, "")
    never = "42|CANCELLED|DependencyNeverSatisfied|0||0:00|1:00|N/A|\n"
    assert slurm.parse_squeue(never)["42"].reason == "DependencyNeverSatisfied"


def test_runs_elsewhere_are_told_of(tmp_path: Path) -> None:
    assert "no runs in" in listed(tmp_path / "here")
    with sentences.raises("run-not-found"):
        find_run.find(None, tmp_path / "here")
    there = tmp_path / "it's there" / "runs"
    a_run(there / "job-1", "41", "COMPLETED", 0)
    find_run.remember(there)
    find_run.remember(tmp_path / "gone")
    text = listed(tmp_path / "here")
    assert f"there are some in {there}\n" in text
    assert "try: runner list --runs-dir '" in text
    with sentences.raises("run-not-found") as error:
        find_run.find("41", tmp_path / "here")
    assert error.value.evidence == f"it is in {there}"
    assert str(error.value.remedies[0]).startswith("--runs-dir ")
    with sentences.raises("run-not-found") as error:
        find_run.find("43", tmp_path / "here")
    assert error.value.evidence == f"you have runs in {there}"


def test_folders_are_remembered_once_the_last_used_first(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in (*folders, folders[0], folders[0]):
        folder.mkdir(exist_ok=True)
        find_run.remember(folder)
    assert find_run.other_folders(folders[1]) == [folders[0], folders[2]]


def test_what_has_ended_is_no_longer_cancelled(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/done-1", "41", "COMPLETED", 0)
    done = CliRunner().invoke(cancel_command, ["--runs-dir", str(tmp_path / "runs"), "41"])
    assert isinstance(done.exception, NotFound)
    assert sentences.told(done.exception) == ("job-ended", "runner status 41")


def test_nothing_is_cancelled_without_a_word_from_the_user(tmp_path: Path) -> None:
    a_run(tmp_path / "job-1", "41", "")
    done = CliRunner().invoke(cancel_command, ["--runs-dir", str(tmp_path)])
    assert isinstance(done.exception, UsageError)
    assert [str(remedy) for remedy in done.exception.remedies] == ["runner cancel 41"]


EARLY = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, *more):
        if name == "runners.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from runners.__main__ import main
main()
"""


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=20)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""
