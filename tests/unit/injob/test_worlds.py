"""What reports of process groups say: one world of all tasks, several, or not yet known."""

from __future__ import annotations

import pytest

from runners.injob.rank.worlds import Membership, State, judge

RIGHT, WRONG, OPEN = State.RIGHT, State.WRONG, State.OPEN
CASES = {
    "one task alone": (1, [(0, 0, 1)], RIGHT, ""),
    "one task with four processes": (1, [(0, rank, 4) for rank in range(4)], RIGHT, ""),
    "one task, not all of its processes yet": (1, [(0, 0, 4), (0, 3, 4)], OPEN, "2 of the 4 ranks"),
    "one task, one training after another": (1, [(0, 0, 1), (0, 0, 2), (0, 1, 2)], RIGHT, ""),
    "a rank a task": (3, [(rank, rank, 3) for rank in range(3)], RIGHT, ""),
    "the same rank once more": (2, [(0, 0, 2), (1, 1, 2), (0, 0, 2)], RIGHT, ""),
    "two tasks with two each": (2, [(rank // 2, rank, 4) for rank in range(4)], RIGHT, ""),
    "tasks with one and three": (2, [(0, 0, 4), *((1, rank, 4) for rank in (1, 2, 3))], RIGHT, ""),
    "one has not reported": (2, [(0, 0, 2)], OPEN, "1 of the 2 ranks"),
    "mp.spawn with localhost": (
        2, [(0, 0, 2), (0, 1, 2), (1, 0, 2)], WRONG, "tasks 0 and 1 both have a rank 0 of 2",
    ),
    "each task has one of a world of its own": (2, [(0, 1, 2), (1, 1, 2)], WRONG, "a rank 1 of 2"),
    "worlds of one": (2, [(0, 0, 1)], WRONG, "task 0 is in a world of 1"),
    "a world of two in a job of four": (4, [(2, 0, 2)], WRONG, "task 2 is in a world of 2"),
    "all ranks in one task of two": (2, [(0, 0, 2), (0, 1, 2)], OPEN, "none to task 1"),
    "ranks that nobody of the job is": (2, [(0, 0, 4), (1, 1, 4)], OPEN, "2 of the 4 ranks"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict_on_worlds(name: str) -> None:
    tasks, members, state, why = CASES[name]
    verdict = judge({Membership(*member) for member in members}, tasks)
    assert verdict.state is state, verdict
    assert why in verdict.why
    while_some_enter = judge({Membership(*member) for member in members}, tasks, entering=2)
    assert while_some_enter.state is (OPEN if state is RIGHT else state)
