"""The verdict from the ranks' stacks: who moved, who waits, who is somewhere else."""

from __future__ import annotations

from dataclasses import replace

from runners.jobs import rank_samples
from runners.jobs.rank_samples import RankSample, StackFrame

from ..tables import each

SITE = "/opt/horovod/lib/python3.11/site-packages"
MAIN = StackFrame("/work/train.py", 40, "<module>")
REDUCES = (
    StackFrame(f"{SITE}/horovod/torch/mpi_ops.py", 1288, "synchronize"),
    StackFrame("/work/train.py", 12, "step"),
    MAIN,
)
BACKWARD = (
    StackFrame(f"{SITE}/torch/autograd/graph.py", 865, "_engine_run_backward"),
    StackFrame("/work/train.py", 14, "step"),
    MAIN,
)
SLEEPS = (StackFrame("/work/train.py", 8, "step"), MAIN)
LOADS = (
    StackFrame("/usr/lib/python3.11/selectors.py", 415, "select"),
    StackFrame(f"{SITE}/torch/utils/data/dataloader.py", 1251, "_try_get_data"),
    StackFrame("/work/train.py", 10, "step"),
    MAIN,
)
STEP = (
    StackFrame(f"{SITE}/tensorflow/python/eager/execute.py", 53, "quick_execute"),
    StackFrame("/work/train.py", 9, "step"),
)
SOURCE = {"/work/train.py:8": "time.sleep(600)", "/work/train.py:12": "hvd.allreduce(loss)"}


def at(rank: int, *stacks: rank_samples.Stack, state: str = "S", busy: float = 0.0) -> RankSample:
    return RankSample(rank, f"n{rank + 1}", state, busy, 0, 7, stacks, SOURCE)


REDUCE_PLACE = "train.py line 12: hvd.allreduce(loss), in synchronize (mpi_ops.py line 1288)"


@each(
    (
        [at(0, REDUCES), at(1, SLEEPS)],
        "rank 1@n2 is in train.py line 8: time.sleep(600) (0 % of a CPU); "
        f"rank 0@n1 waits in {REDUCE_PLACE}",
    ),
    (
        [at(0, REDUCES), at(1, REDUCES), at(2, SLEEPS, state="R", busy=1.0)],
        "rank 2@n3 is in train.py line 8: time.sleep(600) (100 % of a CPU); "
        f"the others wait in {REDUCE_PLACE}",
    ),
    (
        [at(0, REDUCES), at(1, BACKWARD), at(2, REDUCES)],
        "rank 1@n2 is in train.py line 14 (step), in _engine_run_backward (graph.py line 865) "
        f"(0 % of a CPU); the others wait in {REDUCE_PLACE}",
    ),
    (
        [at(0, LOADS), at(1, LOADS)],
        "all ranks wait for the data loader in train.py line 10 (step), "
        "in select (selectors.py line 415)",
    ),
    (
        [at(0, REDUCES), at(1, LOADS)],
        "rank 1@n2 is in train.py line 10 (step), in select (selectors.py line 415) "
        f"(0 % of a CPU); rank 0@n1 waits in {REDUCE_PLACE}",
    ),
    ([at(0, SLEEPS), at(1, SLEEPS)], "all ranks are in train.py line 8: time.sleep(600)"),
    (
        [at(0, REDUCES), at(1, REDUCES), at(2)],
        f"all ranks wait in {REDUCE_PLACE}; rank 2@n3 gave no Python stack (state S, 0 % of a CPU)",
    ),
    (
        [at(0, REDUCES), at(1, state="T")],
        "rank 1@n2 is stopped (state T), by a signal or a debugger; "
        f"rank 0@n1 waits in {REDUCE_PLACE}",
    ),
    (
        [at(0, REDUCES), at(1, BACKWARD)],
        f"rank 0@n1 waits in {REDUCE_PLACE}; rank 1@n2 waits in train.py line 14 (step), "
        "in _engine_run_backward (graph.py line 865)",
    ),
)
def test_who_is_where(samples: list[RankSample], words: str) -> None:
    assert rank_samples.in_words(samples) == words


def test_many_ranks_are_counted_and_not_listed() -> None:
    text = rank_samples.in_words([at(0, REDUCES), *[at(rank, SLEEPS) for rank in range(1, 900)]])
    assert "896 more ranks" in text
    assert len(text) < 500


@each(
    (at(1, SLEEPS), True),
    (at(1, LOADS), False),  # it is somewhere else
    (at(1, SLEEPS, LOADS), False),  # it was, within the second
    (at(1, (SLEEPS[0]._replace(line=9), MAIN)), True),  # `while True:` and its `pass`
    (at(1, (SLEEPS[0]._replace(line=11), MAIN)), False),  # a loop that does something
    (at(1, (SLEEPS[0], MAIN._replace(line=41))), False),
    (replace(at(1, SLEEPS), steps=8), False),  # the same line, one step later
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
        '  File "/work/train.py", line 40, in <module>',
        '  File "/work/train.py", line 8, in step',
        "    time.sleep(600)",
    ]
