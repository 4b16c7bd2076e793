"""Runs on disk, and what the schedulers' answers mean."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runners.contract.failure_kinds import FailureKind
from runners.core import job_record, shell
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.explain import read_facts
from runners.injob import problems
from runners.injob.problems import Problem
from runners.jobs import find_run, job_status
from runners.schedulers.local import SCHEDULER as LOCAL
from runners.schedulers.local import start_time

from .. import sentences
from ..failures import leave, words


def make_run(folder: Path, id: str, state: str = "", submitted: float = 1.0) -> JobPaths:
    folder.mkdir(parents=True)
    paths = JobPaths(folder)
    Job(id, "job", SchedulerName.LOCAL, str(paths.log), submitted, state).save(paths)
    return paths


def test_folders_are_numbered(tmp_path: Path) -> None:
    assert job_record.next_folder(tmp_path, "a/b") == tmp_path / "a_b-1"
    (tmp_path / "a_b-9").mkdir()
    (tmp_path / "a_b-10").mkdir()
    (tmp_path / "a_bc-70").mkdir()
    assert job_record.next_folder(tmp_path, "a/b") == tmp_path / "a_b-11"


def test_a_job_is_found_by_number_name_folder_or_as_the_last(tmp_path: Path) -> None:
    first = make_run(tmp_path / "job-1", "41", submitted=1)
    second = make_run(tmp_path / "job-2", "42", submitted=2)
    for word in ("41", "job-1", str(first.root)):
        assert find_run.find(word, tmp_path)[0] == first
    assert find_run.find(None, tmp_path)[0] == second
    with sentences.raises("run-not-found"):
        find_run.find("43", tmp_path)


def test_a_cut_record_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "41")
    paths.job.write_text('{"id": ')
    with sentences.raises("json-unreadable"):
        find_run.all_runs(tmp_path)


def test_blame_goes_to_the_first_that_did_not_merely_follow(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "41")
    assert read_facts.failures(paths) == ()
    leave(paths, 0, 10.0, words("HorovodInternalError: Connection reset by peer"))
    leave(paths, 1, 10.1, words("ValueError: boom"))
    leave(paths, 2, 9.0, problems.of_process(143, []), 143)
    leave(
        paths, 3, 9.5, Problem(FailureKind.NOT_MET, "rank 1@n1 ended", {"ended": [[1, "n1"]]}), 82
    )
    first = read_facts.first(paths, job_record.load(paths))
    assert str(first) == "rank 1@n1: exit code 1: ValueError: boom"


def test_ranks_that_fail_alike_are_none_the_first(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "41")
    for rank in range(4):
        leave(paths, rank, 10.0 + rank, words("ValueError: boom"), size=4)
    name = "all 4 ranks: exit code 1: ValueError: boom"
    assert str(read_facts.first(paths, job_record.load(paths))) == name
    leave(paths, 3, 10.0, problems.of_process(143, []), 143, size=4)
    name = "3 ranks: exit code 1: ValueError: boom"
    assert str(read_facts.first(paths, job_record.load(paths))) == name
    leave(paths, 3, 9.0, words("KeyError: 3"), size=4)
    name = "rank 3@n3: exit code 1: KeyError: 3"
    assert str(read_facts.first(paths, job_record.load(paths))) == name


def test_a_record_of_an_older_runner_is_read_and_one_of_a_newer_refused(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "41")
    leave(paths, 0, 10.0, words("ValueError: boom"))
    record = paths.failures / "rank-0.json"
    old = {"rank": 0, "host": "n0", "exit_code": 1, "message": "exit code 1: no", "time": 1.0}
    record.write_text(json.dumps(old))
    assert str(read_facts.first(paths, job_record.load(paths))) == "rank 0@n0: exit code 1: no"
    record.write_text(json.dumps({**old, "version": 2}))
    with sentences.raises("failures-of-newer-version"):
        read_facts.failures(paths)


def test_blame_from_srun_when_no_rank_could_write(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "41")
    paths.log.parent.mkdir()
    paths.log.write_text("0@n1 | hello\nsrun: error: n2: task 3: Out Of Memory\n")
    first = read_facts.first(paths, job_record.load(paths))
    assert str(first) == "rank 3@n2: Out Of Memory"


def test_status_of_a_job_that_its_scheduler_has_forgotten(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", f"local-{2**22 + 1}-1")
    job = job_record.load(paths)
    assert job_status.status(paths, job).state == JobState.UNKNOWN
    paths.exit.write_text('{"exit_code": 3}')
    assert job_status.status(paths, job) == Status(JobState.FAILED, "", 3)
    assert job_record.load(paths).state == "FAILED"  # written down


def test_a_recorded_state_wins(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "job-1", "local-1-1", state="CANCELLED")
    assert job_status.status(paths, job_record.load(paths)).state == JobState.CANCELLED


def test_local_jobs_are_told_apart_by_their_start(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    id = f"local-{process.pid}-{start_time(process.pid)}"
    assert LOCAL.states([id, f"local-{process.pid}-0"]).keys() == {id}
    process.kill()
    process.wait()
    assert LOCAL.states([id]) == {}
    with sentences.raises("job-gone"):
        LOCAL.cancel(id)


def test_ended_runs_are_listed_without_asking_a_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "run", lambda argv: pytest.fail(f"asked {argv}"))
    for number in range(100):
        make_run(tmp_path / f"job-{number}", str(number), "COMPLETED")
    assert len(job_status.statuses(find_run.all_runs(tmp_path))) == 100


def test_a_record_with_values_of_env_is_for_its_owner_alone(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    for private, mode in ((False, 0o644), (True, 0o600), (True, 0o600)):
        os.umask(0o022)
        Job("1", "n", SchedulerName.SLURM, "/log", 0.0, private=private).save(paths)
        assert paths.job.stat().st_mode & 0o777 == mode
