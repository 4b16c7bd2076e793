"""A job's log: whole lines, read once, of some ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.monitoring.job_log import PIECE, JobLog, concerns, says_end, step_of


def everything(log: JobLog) -> list[bytes]:
    return [line for lines in log.new() for line in lines]


def test_log_lines_are_whole_and_read_once(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    log = JobLog(path)
    assert everything(log) == []
    path.write_bytes("0@n1 | é".encode()[:-1])
    assert everything(log) == []
    with path.open("ab") as file:
        file.write("é".encode()[-1:] + b"\nrest")
    assert everything(log) == ["0@n1 | é".encode()]
    assert log.rest == b"rest"


def test_a_line_without_end_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"x" * 5 * PIECE + b"\nend\n")
    log = JobLog(path)
    lines = everything(log)
    assert b"".join(lines) == b"x" * 5 * PIECE + b"end"
    assert max(map(len, lines)) <= 2 * PIECE


@pytest.mark.parametrize(
    ("line", "ranks", "shown"),
    [
        (b"3@n2 | x", {1, 3}, True),
        (b"3@n2 | x", {0}, False),
        (b"srun: error", {0}, True),
        (b"3@n2 | x", None, True),
    ],
)
def test_lines_of_ranks(line: bytes, ranks: set[int] | None, shown: bool) -> None:
    assert concerns(line, ranks) is shown


@pytest.mark.parametrize(
    ("line", "so"),
    [
        (b"srun: error: n2: task 1: Exited with exit code 1", True),
        (b"srun: error: n1: tasks 0,2-3: Bus error", True),
        (b"srun: Terminating StepId=3000.0", True),
        (b"slurmstepd-n1: error: *** STEP 3000.0 ON n1 CANCELLED AT 2026-11-22 ***", True),
        (b"srun: error: Unable to create step for job 3000: Invalid account", False),
        (b"slurmstepd: error: *** JOB 3000 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", False),
        (b"0@n1 | srun: error: n2: task 1: of a trainer", False),
    ],
)
def test_what_slurm_says_of_ranks_that_ended(line: bytes, so: bool) -> None:
    assert says_end(line) is so


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            b"0@n1 |   step 100/368  epoch 5  loss 0.1  0:04 left",
            (100, 368, "epoch 5  loss 0.1  0:04 left"),
        ),
        (b"step 1/2", (1, 2, "")),
        (b"0@n1 | two step 1/2", None),
        (b"0@n1 |   step 1/2x", None),
    ],
)
def test_lines_that_move_the_bar(line: bytes, step: tuple[int, int, str] | None) -> None:
    assert step_of(line) == step
