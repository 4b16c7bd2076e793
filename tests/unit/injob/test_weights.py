"""The verdict on what ranks report of their weights: one model, several, or not to be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runners.injob.one_model.judge_weights import differences, judge
from runners.injob.one_model.weights import (
    END,
    FIRST_COMPARED,
    LAST_TRACED,
    OptimizerReport,
    WeightResult,
    WeightSums,
)

TRACED = [1, *range(FIRST_COMPARED, LAST_TRACED + 1)]


def check(*parameters: float) -> WeightSums:
    """One of parameters with ten values each, whose checksums are those of the first."""
    return WeightSums(
        [hash(value) for value in parameters], [[value, *[0.5] * 9] for value in parameters]
    )


def report(
    rank: int, traces: dict[int, int], last: WeightSums | None = None, every: int = 1
) -> OptimizerReport:
    """A rank's, after as many steps as it has traces, with checks of them and at the end.

    A collective of all ranks comes before each step, or after `every` few steps.
    """
    checks = {step: check(traces[step], 1.0) for step in (4, LAST_TRACED) if step in traces}
    end = {END: last} if last else {}
    names = ("first.weight", "second.weight") if rank == 0 else ()
    steps = max(traces, default=0)
    moments = {step: moment(step, every) for step in traces}
    return OptimizerReport(
        rank, names=names, traces=traces, checks={**checks, **end}, steps=steps, moments=moments,
        first=moment(1, every)[0], last=moment(steps, every),
    )  # fmt: skip


def moment(step: int, every: int = 1) -> tuple[int, int]:
    return (step - 1) // every, (step - 1) % every + 1


def pair(
    *traces: dict[int, int], last: tuple[WeightSums, ...] = (), every: int = 1
) -> list[OptimizerReport]:
    ends = last or [None] * len(traces)
    return [report(rank, trace, end, every) for rank, (trace, end) in enumerate(zip(traces, ends))]


def told(reports: list[OptimizerReport], **more: Any) -> list[OptimizerReport]:
    """The reports, of which some fields are given for each rank."""
    return [
        replace(report, **{name: values[rank] for name, values in more.items()})
        for rank, report in enumerate(reports)
    ]


SAME = dict.fromkeys(TRACED, 7)
OTHER = {**dict.fromkeys(TRACED, 8), 1: 7}
ELSEWHERE = dict.fromkeys(TRACED, 9)  # already before the first step
UNFROZEN = {step: 7 if step < 11 else 8 for step in TRACED}
AVERAGED = {step: 7 if step % 8 == 1 else 8 for step in TRACED}  # after every eighth step
SHORT = {step: SAME[step] for step in TRACED if step < 8}
SHORT_OTHER = {step: OTHER[step] for step in TRACED if step < 8}
MOMENTS = {step: (0, step) for step in TRACED}
LATER = {step: (5, step) for step in TRACED}
UNKNOWN = {step: (-1, step) for step in TRACED}
ENDS = (check(1.0, 2.0), check(1.0, 2.0))
UNEQUAL = (check(1.0, 2.0), check(1.0, 2.5))
ROUNDED = (check(1.0, 2.0), check(1.0, 2.0000001))


def test_weights_that_never_were_equal_are_different_ones_before_the_end() -> None:
    verdict = judge(pair(SAME, OTHER), 2, over=False)
    assert verdict.result is WeightResult.DIFFERENT
    assert f"after {LAST_TRACED - 1} steps first.weight differs" in verdict.text
    assert verdict.parameter == "first.weight"
    assert verdict.partly
    assert not verdict.from_start
    assert judge(pair(SAME, ELSEWHERE), 2, over=False).from_start
    never = pair(SAME, OTHER, every=10_000)  # no collective at all
    assert judge(never, 2, over=False).result is WeightResult.DIFFERENT


@pytest.mark.parametrize(
    "reports",
    [
        pair(SAME),
        pair(SAME, SAME),
        pair(SAME, SHORT_OTHER),
        pair(SAME, AVERAGED),
        pair(SHORT, SHORT_OTHER),
        pair(SAME, AVERAGED, every=8),
        told(pair(SAME, OTHER), layers=(True, True)),
        # A rank that has warmed up alone, and one that has not: their steps are not the same ones.
        told(pair(SAME, OTHER), moments=(MOMENTS, LATER)),
        # Nobody counts what mpi4py exchanges.
        told(pair(SAME, OTHER), moments=(UNKNOWN, UNKNOWN)),
        [replace(report, sharded="") for report in pair(SAME, dict(SAME))],
    ],
)
def test_nothing_is_said_before_the_end_as_long_as_all_can_be_right(
    reports: list[OptimizerReport],
) -> None:
    assert judge(reports, 2, over=False).result is WeightResult.OPEN


CASES = {
    "equal to the end": (pair(SAME, SAME, last=ENDS), WeightResult.EQUAL, "after 66 steps"),
    "equal at step 66, no last report": (pair(SAME, SAME), WeightResult.EQUAL, "after 65 steps"),
    "different, few steps": (
        pair(SHORT, SHORT_OTHER, last=UNEQUAL), WeightResult.DIFFERENT, "second.weight differs",
    ),
    "different from the third step to the end": (
        pair(SAME, OTHER, last=UNEQUAL), WeightResult.DIFFERENT, "second.weight differs",
    ),
    "different only since a late step": (
        pair(SAME, SAME, last=UNEQUAL), WeightResult.DIFFERENT, "second.weight differs",
    ),
    "one step, different": (
        pair({1: 7}, {1: 7}, last=UNEQUAL), WeightResult.DIFFERENT, "second.weight differs",
    ),
    "local SGD that ends on an average": (pair(SAME, AVERAGED, last=ENDS), WeightResult.EQUAL, ""),
    "local SGD that ends between averages": (
        pair(SAME, AVERAGED, last=UNEQUAL, every=8), WeightResult.NOT_CHECKED, "now and then",
    ),
    "local SGD with a metric in each step": (
        pair(SAME, AVERAGED, last=UNEQUAL), WeightResult.NOT_CHECKED, "now and then",
    ),
    "equal, and never again": (
        pair(SAME, UNFROZEN, last=UNEQUAL), WeightResult.DIFFERENT, "second.weight differs",
    ),
    "rank 0's weights are broadcast now and then": (
        told(pair(SAME, AVERAGED, last=UNEQUAL, every=8), loose=(True, True),
             replaced=((), (9, 17))),
        WeightResult.DIFFERENT, "rank 0's weights replace all others'",
    ),
    "averaged now and then, by which all weights are replaced": (
        told(pair(SAME, AVERAGED, last=UNEQUAL, every=8), loose=(True, True),
             replaced=((9, 17), (9, 17))),
        WeightResult.NOT_CHECKED, "now and then",
    ),
    "a rank skipped steps after the last that was traced": (
        told(pair(SAME, SAME, last=UNEQUAL), steps=(160, 158), last=((160, 1), (160, 1))),
        WeightResult.DIFFERENT, "second.weight differs",
    ),
    "rank 0 goes on alone": (
        told(pair(SAME, SAME, last=UNEQUAL), steps=(90, 85), last=((85, 6), (85, 1))),
        WeightResult.NOT_CHECKED, "rank 0 made 6 steps after the last exchange",
    ),
    "no step was made at a common moment, and the last ones are equal": (
        told(pair(SAME, OTHER, last=ENDS), moments=(MOMENTS, LATER)),
        WeightResult.EQUAL, "",
    ),
    "the last weights overrule an earlier difference": (
        pair(SAME, OTHER, last=ENDS), WeightResult.EQUAL, "after 66 steps",
    ),
    "ranks that split layers, with equal losses": (
        told(pair(SAME, OTHER, last=UNEQUAL), layers=(True, True), losses=([3.0], [3.0])),
        WeightResult.NOT_CHECKED, "tensor parallelism",
    ),
    "features of all ranks in each one's loss": (
        told(pair(SAME, OTHER, last=(check(1.0, 2.0), check(3.0, 4.0))), layers=(True, True),
             losses=([3.0], [2.0])),
        WeightResult.DIFFERENT, "differs",
    ),
    "other numbers of steps, never exchanged": (
        told(pair(SAME, OTHER, last=UNEQUAL, every=10_000), steps=(70, 66)),
        WeightResult.DIFFERENT, "differs",
    ),
    "the best checkpoint after other numbers of steps": (
        told(pair(SAME, SAME, last=UNEQUAL), steps=(160, 158), changed=(True, False)),
        WeightResult.NOT_CHECKED, "loaded after the last step",
    ),
    "the same inputs": (
        told(pair(SAME, SAME, last=ENDS), inputs=([1, 2, 3], [1, 2, 3]), losses=([3.0], [2.0])),
        WeightResult.COPIES, "after 66 steps",
    ),
    "one input over and over": (
        told(pair(SAME, SAME, last=ENDS), inputs=([1, 1, 1], [1, 1, 1])), WeightResult.EQUAL, "",
    ),
    "rounding": (pair(SHORT, SHORT_OTHER, last=ROUNDED), WeightResult.NOT_CHECKED, "rounding only"),
    "a rank made no step": (pair(SAME, SAME)[:1], WeightResult.NOT_CHECKED, "rank 1 made no step"),
    "sharded": (
        [replace(report, sharded="sharded (FSDP)") for report in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "sharded (FSDP)",
    ),
    "pipelines of equal layers": (
        [replace(report, may_differ="isend()") for report in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "isend()",
    ),
    "other layers on each rank": (
        [replace(report, shapes=report.rank) for report in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "different parameters",
    ),
    "the best checkpoint on rank 0": (
        [replace(report, changed=report.rank == 0) for report in pair(SAME, SAME, last=UNEQUAL)],
        WeightResult.EQUAL, "after 65 steps",
    ),
    "a rank with more data": (pair(SAME, {**SAME, 67: 1}, last=ENDS), WeightResult.EQUAL, ""),
    "two groups, each equal": (
        [replace(report, group=(0, 1) if report.rank < 2 else (2, 3))
         for report in pair(SAME, SAME, OTHER, OTHER, last=(*ENDS, *UNEQUAL[1:] * 2))],
        WeightResult.NOT_CHECKED, "equal within each of 2 process groups",
    ),
    "two groups, one unequal": (
        [replace(report, group=(0, 1) if report.rank < 2 else (2, 3))
         for report in pair(SAME, SAME, SAME, OTHER, last=(*ENDS, *UNEQUAL))],
        WeightResult.DIFFERENT, "differs",
    ),
    "the same losses": (
        [replace(report, losses=(3.0, 2.0, 1.0)) for report in pair(SAME, SAME, last=ENDS)],
        WeightResult.COPIES, "after 66 steps",
    ),
    "other losses": (
        [replace(report, losses=(3.0, 2.0, report.rank)) for report in pair(SAME, SAME, last=ENDS)],
        WeightResult.EQUAL, "",
    ),
    "losses that stay as they are": (
        [replace(report, losses=(0.0, 0.0, 0.0)) for report in pair(SAME, SAME, last=ENDS)],
        WeightResult.EQUAL, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict_at_the_end(name: str) -> None:
    reports, result, text = CASES[name]
    size = 2 if "a rank made no step" in name else len(reports)
    verdict = judge(reports, size, over=True)
    assert verdict.result is result, verdict
    assert text in verdict.text


def test_weights_that_differ_where_it_may_be_right_are_a_warning() -> None:
    sending = told(pair(SAME, OTHER, last=UNEQUAL), may_differ=("ranks send", "ranks send"))
    for reports in (CASES["local SGD that ends between averages"][0], sending):
        warning = judge(reports, 2, over=True).warning
        assert warning == "the ranks' weights differ: after 66 steps second.weight differs"
    assert not judge(pair(SAME, AVERAGED, last=ENDS), 2, over=True).warning


def test_copies_and_weights_that_are_replaced_each_time_are_warned_of() -> None:
    copies = judge(CASES["the same inputs"][0], 2, over=True)
    assert "three inputs of the model are equal on all ranks too: 2 copies" in copies.warning
    replaced = told(pair(SAME, SAME, last=ENDS), loose=(True, True), replaced=((), (4, 5, 6)))
    verdict = judge(replaced, 2, over=True)
    assert verdict.result is WeightResult.EQUAL
    assert "rank 0's weights replace all others'" in verdict.warning


def test_processors_of_two_models_may_differ_in_the_last_bits() -> None:
    apart = (check(1.0, 2.0), check(1.0, 2.001))
    reports = pair(SHORT, SHORT_OTHER, last=apart)
    assert judge(reports, 2, over=True).result is WeightResult.DIFFERENT
    mixed = [replace(report, processor=f"model {report.rank}") for report in reports]
    assert judge(mixed, 2, over=True).result is WeightResult.NOT_CHECKED


def test_differences_are_relative_to_the_parameters_values() -> None:
    one = WeightSums([1, 2, 3, 4], [[1.0, 3.0], [0.0], [5.0], [1.0]])
    other = WeightSums([9, 2, 9, 9], [[1.0, 1.0], [0.0], [5.0], [float("nan")]])
    assert differences([one, other]) == [1.0, 0.0, 0.0, float("inf")]
