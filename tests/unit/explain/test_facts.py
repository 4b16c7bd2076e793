"""What an explanation rests on: the first failing rank, and the log in one pass."""

from __future__ import annotations

import contextlib
import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract import failure_kinds as kinds
from runners.contract.failure_kinds import FailureKind
from runners.core.command_line import CommandLine
from runners.core.errors import SystemFault
from runners.core.job_record import JobState, Status
from runners.explain import read_log
from runners.explain.facts import LogPattern
from runners.explain.judge import explain
from runners.injob.problems import Problem

from ..failures import leave
from .runs import FAILED, launched, made, saved

GOOD_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("signal", "tasks", "world", "port"), 1),
    **{name: ["x"] for name in ("traceback", "evidence", "alone", "imports", "wanted", "usable")},
    **{name: [[0, "n0"]] for name in ("ended", "late", "silent", "unreached")},
    "asked": [15],
    "guessed": False,
}


@pytest.mark.parametrize("kind", FailureKind)
def test_a_field_of_another_form_is_damage(tmp_path: Path, kind: FailureKind) -> None:
    """A record may be another user's: whatever it holds, it is explained or named as damaged."""
    paths, job = made(tmp_path, "")
    of_kind = {name: GOOD_FIELDS.get(name, "x") for name in kinds.KINDS[kind]}
    leave(paths, 0, 1.0, Problem(kind, "m", of_kind), size=2)
    assert explain(paths, job, FAILED).id
    file = paths.failures / "rank-0.json"
    good = json.loads(file.read_text())
    for name in good if kind == FailureKind.EXIT else of_kind:  # the others are of every kind
        wrong: list[Any] = [None, 1.5, "x", [], {}, [1], ["x"], [[1]], [[0, "n0", 1]]]
        for value in wrong:
            file.write_text(json.dumps({**good, name: value}))
            with contextlib.suppress(SystemFault):
                explain(paths, job, FAILED)
    for name in of_kind:
        file.write_text(json.dumps({**good, name: {}}))
        with pytest.raises(SystemFault) as told:
            explain(paths, job, FAILED)
        assert told.value.diagnosis.id == "failures-unreadable"
        assert f"{name} of rank-0.json" in told.value.evidence


def test_only_the_last_start_of_a_job_counts(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("0@n0 | x\nrunner: start 1\n0@n0 | y\n0@n0 | x later\n")
    (hit,) = read_log.read(path, [LogPattern("x")], "0@n0").hits[LogPattern("x")]
    assert str(hit) == "logs/job.log:4: 0@n0 | x later"


def test_a_big_log_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("w") as file:
        for step in range(10_000):
            file.write(f"{step % 64}@n1 |   step {step}  an Error rate of 0.3, no more text here\n")
            file.write("8@n1 | loss 0.3, and more of such text without an end to see\n" * 25)
        file.write("9@n1 | MemoryError: at last\n")
        file.write("x" * 1_000_000)
    mark = LogPattern("Error: at last", "^MemoryError")
    tracemalloc.start()
    found = read_log.read(path, [mark], "9@n1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.hits[mark][0].number == 260_001
    assert found.last[-1].text == "MemoryError: at last"
    assert peak < path.stat().st_size / 2, peak


@pytest.mark.parametrize("piece", [64, 1 << 20])
def test_the_last_lines_are_those_of_the_first_rank_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(read_log, "PIECE", piece)
    path = tmp_path / "job.log"
    lines = [f"{number % 3}@n1 | line {number}" for number in range(1, 200)]
    path.write_text("\n".join([*lines, "srun: Terminating", "", ""]))
    found = read_log.read(path, [], "1@n1")
    numbers = [number for number in range(1, 200) if number % 3 == 1][-read_log.LAST :]
    assert [(line.number, line.text) for line in found.last] == [(n, f"line {n}") for n in numbers]
    everybody = read_log.read(path, [])
    assert [(line.number, line.text) for line in everybody.last[-2:]] == [
        (199, "line 199"),
        (200, "srun: Terminating"),
    ]
    assert (found.lines, found.size) == (201, path.stat().st_size)


@pytest.mark.parametrize(
    ("steps", "step", "needs", "offered"),
    [
        (
            100_000,
            158,
            "10:32:55",
            "--time 01:00:00 --requeue-limit 22 --requeue --signal USR1@120",
        ),
        (1000, 100, "10:00", "--time 01:00:00 --requeue --signal USR1@120"),
    ],
)
def test_a_training_that_cannot_finish_within_its_limit(
    tmp_path: Path, steps: int, step: int, needs: str, offered: str
) -> None:
    paths, job = made(tmp_path, "")
    saved(paths, 120)
    line = {
        "time": "2026-11-28T10:00:00+00:00",
        "event": "step",
        "step": step,
        "steps": steps,
        "loss": 0.1,
    }
    paths.metrics.write_text(json.dumps(line) + "\n")
    said = explain(paths, launched(job, time="00:01:00"), Status(JobState.TIMEOUT))
    assert f"at its pace all steps need {needs}: it cannot finish within it" in said.what
    assert str(said.fix) == f"{offered} -- --resume {paths.root}"
    assert [remedy.does for remedy in said.remedies] == [
        "",
        "to finish in one job, where its partition gives so much time",
    ]


def test_what_the_container_said_may_be_in_the_file_of_errors(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "0@n1 | hello\n")
    errors = tmp_path / "t.err"
    text = "FATAL:   could not open image /tmp/a.sif: no such file or directory\n"
    errors.write_text(f"0@n1 | error: of a rank, which the log has\n{text}")
    said = explain(paths, replace(job, error=str(errors)), FAILED)
    assert "ls -l /tmp/a.sif" in str(said.fix)
    assert f"{errors}:2: {text.strip()}" in said.evidence_lines
    assert "which the log has" not in str(said.evidence_lines)
    gone = explain(paths, replace(job, error=str(tmp_path / "gone")), FAILED)
    assert gone.id == explain(paths, job, FAILED).id


def test_who_cancelled_is_said(tmp_path: Path) -> None:
    run = made(tmp_path, "")
    for uid, who in ((os.getuid(), "by yourself"), (4711, "by user 4711")):
        said = explain(*run, Status(JobState.CANCELLED, f"by {uid}"))
        assert f"the job was cancelled {who}" in said.what


def test_a_package_for_cuda_is_not_offered_for_an_image_for_cpus(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "", (0, 1.0, "ModuleNotFoundError: No module named 'torchvision'"))
    for image, offered in (("cpu.sif", False), ("gpu.sif", True)):
        said = explain(paths, replace(job, typed=CommandLine(), image=image), FAILED)
        assert ("runner build" in str(said.fix)) is offered, said
