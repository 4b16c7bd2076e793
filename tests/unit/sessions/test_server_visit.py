"""A visit to a server: what is told until it answers, and how its end is told."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runners.contract.exit_codes import EXIT_NOT_SERVED
from runners.contract.run_files import ADDRESS
from runners.core.command_line import CommandLine
from runners.core.job_record import Job, JobPaths, JobState
from runners.launching import private_folder
from runners.sessions import servers
from runners.sessions.server_visit import ServerAccess, ServerEnd, ServerState, ServerVisit, facts

from .. import sentences
from ..runs import a_run, ends, squeue_says


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[JobPaths, Job]:
    """A server's job that waits."""
    paths, job = a_run(tmp_path / "jupyter-1", typed=CommandLine("jupyter"))
    private_folder.make(paths)
    squeue_says(monkeypatch, squeue("PENDING", "Priority"))
    return paths, job


def squeue(state: str, reason: str = "None", start: str = "N/A") -> str:
    return f"42|{state}|{reason}|0|n1|0:01|1:00|{start}|\n"


def answers(paths: JobPaths) -> None:
    address = {"host": "n1", "address": "127.0.0.1", "port": 4321, "page": "/lab", "loopback": True}
    (paths.private / ADDRESS).write_text(json.dumps(address))


def test_the_way_is_told_once_and_no_state_after_it(
    run: tuple[JobPaths, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = run
    looks = iter(["RUNNING", "RUNNING", "RUNNING", "COMPLETED"])

    def sleep(_: float) -> None:
        clock[0] += 60
        squeue_says(monkeypatch, squeue(next(looks)))
        if clock[0] == 120:
            answers(paths)

    clock = [0.0]
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    waits, runs, access, ended = ServerVisit(paths, job, "login.example").news()
    assert waits == ServerState("pending (other jobs are before it)")
    assert runs == ServerState("running")
    assert isinstance(access, ServerAccess)
    assert access.way.ssh.startswith("ssh -N -J ")
    assert "@login.example -L 4321:127.0.0.1:4321 " in access.way.ssh
    assert access.way.url == f"http://127.0.0.1:4321/lab?token={access.token}"
    assert access.kept.stat().st_mode & 0o077 == 0
    assert access.kept.read_text().splitlines() == access.way.lines
    assert isinstance(ended, ServerEnd)
    assert (ended.exit_code, ended.last_lines, ended.unclear) == (0, (), False)
    told = facts(ServerVisit(paths, job, "login.example"), access)
    assert (told["id"], told["port"], told["url"]) == ("42", 4321, access.way.url)
    assert told["token"] == access.token


def test_who_waits_is_told_when_it_is_expected_to_start(
    run: tuple[JobPaths, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue_says(monkeypatch, squeue("PENDING", "Priority", "3600"))
    state = next(ServerVisit(*run, "").news())
    assert isinstance(state, ServerState)
    assert "; job 42 pending, to start at 1970-01-01 " in state.words


def test_after_an_interruption_nothing_is_told_again(
    run: tuple[JobPaths, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = run
    squeue_says(monkeypatch, squeue("RUNNING"))
    answers(paths)
    visit = ServerVisit(paths, job, "login.example")
    news = visit.news()
    assert [type(next(news)) for _ in range(2)] == [ServerState, ServerAccess]
    squeue_says(monkeypatch, squeue("CANCELLED"))
    (ended,) = visit.news()
    assert isinstance(ended, ServerEnd)
    assert (ended.status.state, ended.exit_code) == (JobState.CANCELLED, 86)


def test_what_never_answered_ends_with_its_last_lines_and_why(
    run: tuple[JobPaths, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = run
    paths.log.parent.mkdir(parents=True)
    paths.log.write_text("".join(f"line {number}\n" for number in range(20)))
    squeue_says(monkeypatch, squeue("FAILED"))
    ends(paths, 7)
    visit = ServerVisit(paths, job, "")
    *_, ended = visit.news()
    assert isinstance(ended, ServerEnd)
    assert ended.last_lines == [f"line {number}" for number in range(10, 20)]
    explained = visit.explained(ended)
    assert explained
    assert explained.explanation
    assert explained.exit_code == 7


def test_a_server_that_said_why_it_does_not_serve_is_not_explained(
    run: tuple[JobPaths, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = run
    squeue_says(monkeypatch, squeue("FAILED"))
    ends(paths, EXIT_NOT_SERVED)
    visit = ServerVisit(paths, job, "")
    *_, ended = visit.news()
    assert isinstance(ended, ServerEnd)
    assert ended.exit_code == EXIT_NOT_SERVED
    assert visit.explained(ended) is None


def test_one_reconnects_to_servers_alone(here: Path) -> None:
    paths, job = a_run(here / "runs" / "train 1")
    with sentences.raises("not-this-session", "runner exec 'runs/train 1' -- COMMAND"):
        servers.reconnect(paths, job, {}, "JupyterLab")
