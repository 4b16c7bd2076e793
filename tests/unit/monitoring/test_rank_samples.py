"""The verdict from the ranks' stacks: who moved, who waits, who is somewhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runners.monitoring import rank_samples
from runners.monitoring.rank_samples import RankSample, StackFrame

SITE = "/opt/horovod/lib/python3.11/site-packages"
MAIN = StackFrame("/home/ada/train.py", 40, "<module>")
REDUCES = (
    StackFrame(f"{SITE}/horovod/torch/mpi_ops.py", 1288, "synchronize"),
    StackFrame("/home/ada/train.py", 12, "step"),
    MAIN,
)
BACKWARD = (
    StackFrame(f"{SITE}/torch/autograd/graph.py", 865, "_engine_run_backward"),
    StackFrame("/home/ada/train.py", 14, "step"),
    MAIN,
)
SLEEPS = (StackFrame("/home/ada/train.py", 8, "step"), MAIN)
LOADS = (
    StackFrame("/usr/lib/python3.11/selectors.py", 415, "select"),
    StackFrame(f"{SITE}/torch/utils/data/dataloader.py", 1251, "_try_get_data"),
    StackFrame("/home/ada/train.py", 10, "step"),
    MAIN,
)
STEP = (
    StackFrame(f"{SITE}/tensorflow/python/eager/execute.py", 53, "quick_execute"),
    StackFrame("/home/ada/train.py", 9, "step"),
)
SOURCE = {"/home/ada/train.py:8": "time.sleep(600)", "/home/ada/train.py:12": "hvd.allreduce(loss)"}


def at(rank: int, *stacks: rank_samples.Stack, state: str = "S", busy: float = 0.0) -> RankSample:
    return RankSample(rank, f"n{rank + 1}", state, busy, 0, 7, stacks, SOURCE)


REDUCE_CALL = "hvd.allreduce(loss), in synchronize (mpi_ops.py line 1288)"
BACKWARD_CALL = "step, in _engine_run_backward (graph.py line 865)"
LOAD_CALL = "step, in select (selectors.py line 415)"
TRAIN = "train.py"
SLEEPING = (TRAIN, "8", "time.sleep(600)")
REDUCING = (TRAIN, "12", REDUCE_CALL)
ALIKE = "no rank differs from the others"


@pytest.mark.parametrize(
    ("samples", "said", "rows"),
    [
        (
            [at(0, REDUCES), at(1, SLEEPS)],
            "rank 1@n2 did not come to where the others wait",
            [(True, "1", "n2", "sleeps", *SLEEPING), (False, "0", "n1", "waits", *REDUCING)],
        ),
        (
            [at(0, REDUCES), at(1, REDUCES), at(2, SLEEPS, state="R", busy=1.0)],
            "rank 2@n3 did not come to where the others wait",
            [(True, "2", "n3", "runs", *SLEEPING), (False, "0, 1", "n1, n2", "waits", *REDUCING)],
        ),
        (
            [at(0, REDUCES), at(1, BACKWARD), at(2, REDUCES)],
            "rank 1@n2 did not come to where the others wait",
            [
                (True, "1", "n2", "waits", TRAIN, "14", BACKWARD_CALL),
                (False, "0, 2", "n1, n3", "waits", *REDUCING),
            ],
        ),
        (
            [at(0, LOADS), at(1, LOADS)],
            ALIKE,
            [(False, "0, 1", "n1, n2", "loads data", TRAIN, "10", LOAD_CALL)],
        ),
        (
            [at(0, REDUCES), at(1, LOADS)],
            "rank 1@n2 did not come to where the others wait",
            [
                (True, "1", "n2", "loads data", TRAIN, "10", LOAD_CALL),
                (False, "0", "n1", "waits", *REDUCING),
            ],
        ),
        (
            [at(0, SLEEPS), at(1, SLEEPS)],
            ALIKE,
            [(False, "0, 1", "n1, n2", "sleeps", *SLEEPING)],
        ),
        (
            [at(0, SLEEPS), at(1, SLEEPS), at(2, STEP[1:])],
            "rank 2@n3 is not where the others are",
            [
                (True, "2", "n3", "sleeps", TRAIN, "9", "step"),
                (False, "0, 1", "n1, n2", "sleeps", *SLEEPING),
            ],
        ),
        (
            [at(0, REDUCES), at(1, REDUCES), at(2)],
            ALIKE,
            [
                (False, "0, 1", "n1, n2", "waits", *REDUCING),
                (False, "2", "n3", "sleeps", "", "", "gave no Python stack"),
            ],
        ),
        (
            [at(0, REDUCES), at(1, state="T")],
            "rank 1@n2 did not come to where the others wait",
            [
                (True, "1", "n2", "stopped", "", "", "gave no Python stack"),
                (False, "0", "n1", "waits", *REDUCING),
            ],
        ),
        (
            [at(0, REDUCES), at(1, BACKWARD)],
            ALIKE,
            [
                (False, "0", "n1", "waits", *REDUCING),
                (False, "1", "n2", "waits", TRAIN, "14", BACKWARD_CALL),
            ],
        ),
    ],
)
def test_who_is_where(samples: list[RankSample], said: str, rows: list[tuple[object, ...]]) -> None:
    assert rank_samples.verdict(samples) == said
    assert rank_samples.table(samples) == rows


def test_many_ranks_are_counted_and_not_listed() -> None:
    samples = [at(0, REDUCES), *[at(rank, SLEEPS) for rank in range(1, 900)]]
    assert rank_samples.verdict(samples).startswith("ranks 1@n2, 2@n3, 3@n4 and 896 more did not")
    first, second = rank_samples.table(samples)
    assert (first.late, first.ranks) == (True, "1, 2, 3 and 896 more")
    assert (second.late, second.ranks) == (False, "0")


@pytest.mark.parametrize(
    ("after", "still"),
    [
        (at(1, SLEEPS), True),
        (at(1, LOADS), False),  # it is somewhere else
        (at(1, SLEEPS, LOADS), False),  # it was, within the second
        (at(1, (SLEEPS[0]._replace(line=9), MAIN)), True),  # `while True:` and its `pass`
        (at(1, (SLEEPS[0]._replace(line=11), MAIN)), False),  # a loop that does something
        (at(1, (SLEEPS[0], MAIN._replace(line=41))), False),
        (replace(at(1, SLEEPS), steps=8), False),  # the same line, one step later
    ],
)
def test_a_rank_stands_still_if_neither_its_stack_nor_its_steps_move(
    after: RankSample, still: bool
) -> None:
    waits = at(0, REDUCES)
    assert rank_samples.stand_still([waits, at(1, SLEEPS)], [waits, after]) is still


def test_a_step_in_one_call_of_tensorflow_moves_if_its_thread_wakes_up() -> None:
    before, sampled, stepped = (replace(at(0, STEP), sleeps=count) for count in (900, 903, 907))
    assert rank_samples.stand_still([before], [sampled])
    assert not rank_samples.stand_still([before], [stepped])


def test_without_stacks_nobody_is_said_to_stand_still() -> None:
    assert not rank_samples.stand_still([], [])
    assert not rank_samples.stand_still([at(0), at(1)], [at(0), at(1)])
    assert not rank_samples.stand_still([at(0, SLEEPS)], [at(0, SLEEPS), at(1, SLEEPS)])
    # One that cannot answer is no reason to be silent.
    ranks = [at(0, SLEEPS), at(1)]
    assert rank_samples.stand_still(ranks, ranks)


def test_the_report_of_a_rank_reads_like_a_traceback() -> None:
    assert rank_samples.report(at(1, SLEEPS)).splitlines() == [
        "rank 1@n2: state S, 0 % of a CPU, 7 steps of its optimizers",
        '  File "/home/ada/train.py", line 40, in <module>',
        '  File "/home/ada/train.py", line 8, in step',
        "    time.sleep(600)",
    ]
