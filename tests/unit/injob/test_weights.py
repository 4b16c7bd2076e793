"""The verdict on what ranks report of their weights: one model, several, or not to be told."""

from __future__ import annotations

from dataclasses import replace

from runners.injob.rank.weights import (
    END,
    FIRST_COMPARED,
    LAST_TRACED,
    OptimizerReport,
    WeightResult,
    WeightSums,
    differences,
    judge,
)

from ..tables import each

TRACED = [1, *range(FIRST_COMPARED, LAST_TRACED + 1)]


def check(*parameters: float) -> WeightSums:
    """One of parameters with ten values each, whose checksums are those of the first."""
    return WeightSums([hash(one) for one in parameters], [[one, *[0.5] * 9] for one in parameters])


def report(rank: int, traces: dict[int, int], last: WeightSums | None = None) -> OptimizerReport:
    """A rank's, after as many steps as it has traces, with checks of them and at the end."""
    checks = {step: check(traces[step], 1.0) for step in (4, LAST_TRACED) if step in traces}
    end = {END: last} if last else {}
    names = ("first.weight", "second.weight") if rank == 0 else ()
    return OptimizerReport(
        rank, names=names, traces=traces, checks={**checks, **end}, steps=max(traces, default=0)
    )


def pair(*traces: dict[int, int], last: tuple[WeightSums, ...] = ()) -> list[OptimizerReport]:
    ends = last or [None] * len(traces)
    return [report(rank, one, end) for rank, (one, end) in enumerate(zip(traces, ends))]


SAME = dict.fromkeys(TRACED, 7)
OTHER = {**dict.fromkeys(TRACED, 8), 1: 7}
ELSEWHERE = dict.fromkeys(TRACED, 9)  # already before the first step
AVERAGED = {step: 7 if step % 8 == 1 else 8 for step in TRACED}  # after every eighth step
SHORT = {step: SAME[step] for step in TRACED if step < 8}
SHORT_OTHER = {step: OTHER[step] for step in TRACED if step < 8}
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


@each(
    pair(SAME),
    pair(SAME, SAME),
    pair(SAME, SHORT_OTHER),
    pair(SAME, AVERAGED),
    pair(SHORT, SHORT_OTHER),
    [replace(one, sharded="") for one in pair(SAME, dict(SAME))],
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
        pair(SAME, AVERAGED, last=UNEQUAL), WeightResult.NOT_CHECKED, "equal before step 65",
    ),
    "rounding": (pair(SHORT, SHORT_OTHER, last=ROUNDED), WeightResult.NOT_CHECKED, "rounding only"),
    "a rank made no step": (pair(SAME, SAME)[:1], WeightResult.NOT_CHECKED, "rank 1 made no step"),
    "sharded": (
        [replace(one, sharded="sharded (FSDP)") for one in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "sharded (FSDP)",
    ),
    "pipelines of equal layers": (
        [replace(one, may_differ="isend()") for one in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "isend()",
    ),
    "other layers on each rank": (
        [replace(one, shapes=one.rank) for one in pair(SAME, OTHER, last=UNEQUAL)],
        WeightResult.NOT_CHECKED, "different parameters",
    ),
    "the best checkpoint on rank 0": (
        [replace(one, changed=one.rank == 0) for one in pair(SAME, SAME, last=UNEQUAL)],
        WeightResult.EQUAL, "after 65 steps",
    ),
    "a rank with more data": (pair(SAME, {**SAME, 67: 1}, last=UNEQUAL), WeightResult.EQUAL, ""),
    "two groups, each equal": (
        [replace(one, group=(0, 1) if one.rank < 2 else (2, 3))
         for one in pair(SAME, SAME, OTHER, OTHER, last=(*ENDS, *UNEQUAL[1:] * 2))],
        WeightResult.NOT_CHECKED, "equal within each of 2 process groups",
    ),
    "two groups, one unequal": (
        [replace(one, group=(0, 1) if one.rank < 2 else (2, 3))
         for one in pair(SAME, SAME, SAME, OTHER, last=(*ENDS, *UNEQUAL))],
        WeightResult.DIFFERENT, "differs",
    ),
    "the same losses": (
        [replace(one, losses=(3.0, 2.0, 1.0)) for one in pair(SAME, SAME, last=ENDS)],
        WeightResult.COPIES, "2 copies of one training",
    ),
    "other losses": (
        [replace(one, losses=(3.0, 2.0, one.rank)) for one in pair(SAME, SAME, last=ENDS)],
        WeightResult.EQUAL, "",
    ),
    "losses that stay as they are": (
        [replace(one, losses=(0.0, 0.0, 0.0)) for one in pair(SAME, SAME, last=ENDS)],
        WeightResult.EQUAL, "",
    ),
}  # fmt: skip


@each(*CASES)
def test_verdict_at_the_end(name: str) -> None:
    reports, result, text = CASES[name]
    size = 2 if "a rank made no step" in name else len(reports)
    verdict = judge(reports, size, over=True)
    assert verdict.result is result, verdict
    assert text in verdict.text


def test_processors_of_two_models_may_differ_in_the_last_bits() -> None:
    apart = (check(1.0, 2.0), check(1.0, 2.001))
    reports = pair(SHORT, SHORT_OTHER, last=apart)
    assert judge(reports, 2, over=True).result is WeightResult.DIFFERENT
    mixed = [replace(one, processor=f"model {one.rank}") for one in reports]
    assert judge(mixed, 2, over=True).result is WeightResult.NOT_CHECKED


def test_differences_are_relative_to_the_parameters_values() -> None:
    one = WeightSums([1, 2, 3, 4], [[1.0, 3.0], [0.0], [5.0], [1.0]])
    other = WeightSums([9, 2, 9, 9], [[1.0, 1.0], [0.0], [5.0], [float("nan")]])
    assert differences([one, other]) == [1.0, 0.0, 0.0, float("inf")]
