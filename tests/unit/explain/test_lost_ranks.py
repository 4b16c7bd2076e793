"""Messages about lost ranks."""

from __future__ import annotations

import pytest

from runners.explain import lost_ranks


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("srun: error: n2: task 3: Killed", "[3]@n2: Killed"),
        (
            "srun: error: n1: tasks 0-1: Exited with exit code 1",
            "[0, 1]@n1: Exited with exit code 1",
        ),
        ("srun: job 42 queued", None),
        (
            "mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).",
            "[3]@n2: exited on signal 9 (Killed)",
        ),
        (
            "x1c0n0.cm.example: rank 3 died from signal 9",
            "[3]@x1c0n0.cm.example: died from signal 9",
        ),
    ],
)
def test_launchers_name_the_lost_task(line: str, who: str | None) -> None:
    found = lost_ranks.lost_ranks(line)
    assert (found and f"{found[0]}@{found[1]}: {found[2]}") == who


@pytest.mark.parametrize("ranks", [",", "-", "5-3", "1,,2"])
def test_what_a_program_writes_like_srun_is_no_lost_task(ranks: str) -> None:
    assert lost_ranks.lost_ranks(f"srun: error: n2: tasks {ranks}: Killed") is None


def test_a_line_of_more_ranks_than_any_job_has_is_cut() -> None:
    found = lost_ranks.lost_ranks("srun: error: n2: tasks 0-999999999: Killed")
    assert found
    assert found[0] == [*range(lost_ranks.MOST_RANKS)]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("Killed", 137),
        ("Exited with exit code 7", 7),
        ("Segmentation fault (core dumped)", 139),
        ("Out Of Memory", 137),
        ("died from signal 11", 139),
        ("something else", None),
    ],
)
def test_a_lost_rank_has_an_exit_code(how: str, code: int | None) -> None:
    assert lost_ranks.exit_code(how) == code
