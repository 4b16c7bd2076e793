"""Reports of weights as they come from the ranks' processes, and what is kept and said of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.run_files import WEIGHTS
from runners.injob import records
from runners.injob.one_model import weight_reports
from runners.injob.one_model.weight_causes import cause_of
from runners.injob.one_model.weight_reports import WeightReports, matched
from runners.injob.one_model.weights import (
    END,
    LAST_TRACED,
    OptimizerReport,
    WeightResult,
    WeightsVerdict,
)

TRACED = [1, *range(4, LAST_TRACED + 1)]


def fields(rank: int, sum_: int, process: int = 0, **more: Any) -> dict[str, Any]:
    """A report as it comes, after the 66th step: JSON has no numbers as keys."""
    traces = {str(step): sum_ for step in TRACED}
    moments = {str(step): [step, 1] for step in TRACED}
    return {
        "rank": rank, "size": 2, "process": process, "optimizer": "torch 0", "step": LAST_TRACED,
        "traces": traces, "moments": moments, "losses": [], "checksums": [sum_],
        "values": [[sum_]], "names": ["w"],
        **more,
    }  # fmt: skip


def test_reports_of_all_ranks_are_put_together() -> None:
    reports = WeightReports()
    reports.hear(fields(0, 1))
    assert reports.verdict(over=False)[0].result is WeightResult.OPEN
    reports.hear(fields(1, 2, facts={"ddp": 1}))
    assert reports.verdict(over=False)[0].result is WeightResult.DIFFERENT


def test_ranks_that_were_started_again_are_not_compared_with_their_former_selves() -> None:
    reports = WeightReports()
    reports.hear(fields(0, 1, process=10))
    reports.hear(fields(1, 1, process=20))
    reports.hear(fields(0, 2, process=11))
    assert reports.verdict(over=False)[0].result is WeightResult.OPEN
    reports.hear(fields(1, 2, process=21))
    assert reports.verdict(over=True)[0].result is WeightResult.EQUAL


def test_the_worst_of_several_optimizers_counts() -> None:
    reports = WeightReports()
    for rank in (0, 1):
        reports.hear(fields(rank, 1))
        reports.hear(fields(rank, 5 + rank, optimizer="torch 1"))
    assert reports.verdict(over=False)[0].result is WeightResult.DIFFERENT


def test_a_check_that_failed_is_said() -> None:
    reports = WeightReports()
    for rank in (0, 1):
        value = fields(rank, 1, step=END, sharded="the check failed (ValueError: x)")
        reports.hear(value)
    verdict, _ = reports.verdict(over=True)
    assert weight_reports.lines(verdict) == (
        "runner: weights not checked: the check failed (ValueError: x)"
    )


def test_a_job_without_an_optimizer_is_not_checked() -> None:
    verdict, _ = WeightReports().verdict(over=True)
    assert weight_reports.lines(verdict).startswith("runner: weights not checked: no optimizer of")


def last(rank: int, sum_: int, optimizer: str = "torch 0", **more: Any) -> dict[str, Any]:
    """A rank's last report of an optimizer, after five steps."""
    fields = {"steps": 5, "changed": False, "first": 0, "last": [0, 5], "shapes": 1, **more}
    return {
        "rank": rank, "size": 2, "process": 0, "optimizer": optimizer, "step": END,
        "checksums": [sum_], "values": [[sum_]], **fields,
    }  # fmt: skip


def heard(*reports: dict[str, Any]) -> WeightReports:
    all_ = WeightReports()
    for report in reports:
        all_.hear(report)
    return all_


def test_steps_outside_of_the_process_group_are_told_with_a_warning() -> None:
    outside = {"size": 2, "process": 0, "step": END, "outside": 5}
    verdict, _ = heard({"rank": 1, **outside}, {"rank": 0, **outside}).verdict(over=True)
    said = weight_reports.lines(verdict)
    assert "not checked: rank 0 made 5 steps in a process that is in no process group" in said
    assert "\nrunner: warning: nothing can average" in said


def test_optimizers_that_were_too_many_are_said() -> None:
    more = {"rank": 0, "size": 2, "process": 0, "optimizer": "", "step": END, "unwatched": 7}
    verdict, _ = heard(last(0, 1), last(1, 1), more).verdict(over=True)
    assert verdict.result is WeightResult.EQUAL
    assert "7 more optimizers were not watched" in verdict.text


def test_an_optimizer_of_one_rank_alone_is_not_compared() -> None:
    """Rank 0 warms up with an optimizer of its own, then all train with the next one."""
    own = last(0, 5, first=0)
    reports = heard(own, last(0, 1, "torch 1", first=3), last(1, 1, first=3))
    assert reports.verdict(over=True)[0].result is WeightResult.EQUAL
    reports = heard(own, last(0, 1, "torch 1", first=3), last(1, 2, first=3))
    assert reports.verdict(over=True)[0].result is not WeightResult.EQUAL


def test_optimizers_are_matched_by_when_they_began_else_from_the_last() -> None:
    def of(rank: int, *began: int, shapes: int = 1) -> list[OptimizerReport]:
        return [OptimizerReport(rank, shapes=shapes, first=step) for step in began]

    def pairs(*lists: list[OptimizerReport]) -> list[list[int | None]]:
        return [
            [optimizer.first for _, optimizer in sorted(by_rank.items())]
            for by_rank in matched(lists)
        ]

    assert pairs(of(0, 0, 0), of(1, 0, 0)) == [[0, 0], [0, 0]]
    assert pairs(of(0, 0, 4, 9), of(1, 4)) == [[4, 4], [0], [9]]
    assert pairs(of(0, 3, 3), of(1, 3)) == [[3, 3], [3]]
    assert pairs(of(0, 5, 8) + of(0, 9, shapes=2), of(1, 8)) == [[8, 8], [5], [9]]


def test_inner_loops_are_left_to_each_rank() -> None:
    """As in meta-learning: all their steps are between two of the outer optimizer."""
    outer = [last(rank, 1, steps=9) for rank in (0, 1)]
    inner = [last(rank, 5 + rank, "torch 1", beside={"torch 0": 3}) for rank in (0, 1)]
    assert heard(*outer, *inner).verdict(over=True)[0].result is WeightResult.EQUAL
    later = [{**report, "beside": {"torch 0": 9}} for report in inner]
    assert heard(*outer, *later).verdict(over=True)[0].result is WeightResult.DIFFERENT


def test_of_thousands_of_equal_optimizers_little_is_kept() -> None:
    gone = [last(rank, 1, gone=True) for rank in (0, 1)]
    reports = heard(*gone)
    kept = [report for ranks in reports.reports.values() for report in ranks.values()]
    assert not any(report.checks[END].values for report in kept)
    assert reports.verdict(over=True)[0].result is WeightResult.EQUAL


def test_the_verdict_is_kept_beside_the_trainers_result(tmp_path: Path) -> None:
    reports = WeightReports()
    for rank in (0, 1):
        reports.hear(fields(rank, 1))
    verdict, _ = reports.verdict(over=True)
    weight_reports.keep(verdict, str(tmp_path))
    kept = json.loads((tmp_path / "weights.json").read_text())
    assert kept == {"version": 1, "result": "equal", "text": "after 65 steps"}
    for text, expected in (('{"loss": 1}', {"loss": 1, "weights": kept}), ("[1]", [1])):
        (tmp_path / "result.json").write_text(text)
        weight_reports.keep(verdict, str(tmp_path))
        assert json.loads((tmp_path / "result.json").read_text()) == expected
    records.forget(str(tmp_path), WEIGHTS)
    assert not (tmp_path / "weights.json").exists()


DIFFERENT = WeightsVerdict(WeightResult.DIFFERENT, parameter="head.bias")


@pytest.mark.parametrize(("framework", "facts", "verdict", "cause", "remedy"), [
        ("torch.distributed", {}, {}, "not wrapped", "DistributedDataParallel(model)"),
        ("torch.distributed", {"ddp_ours": 1, "ddp_ranks": 1}, {}, "one rank", "without process"),
        (
            "torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2, "no_sync": True}, {},
            "no_sync()", "before the last backward()",
        ),
        ("torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2}, {}, "model.module(x)", "wrapped"),
        (
            "torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2, "ddp_used": True},
            {"partly": True}, "head.bias is not in the model", "DistributedDataParallel",
        ),
        ("torch.distributed", {"ddp": 1}, {}, "head.bias is not in the model", "Parallel"),
        ("torch.distributed", {"accelerate": True}, {}, "not prepared", "accelerator.prepare("),
        ("Horovod", {}, {}, "the optimizer is not wrapped", "hvd.DistributedOptimizer("),
        ("Horovod", {"wrapped": True}, {"from_start": True}, "began with", "broadcast_parameters"),
        ("Horovod", {"wrapped_others": True}, {}, "head.bias is not in", "pass all parameters"),
        (
            "torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2, "ddp_used": True},
            {"uneven": True}, "skipped steps", "decide together",
        ),
        (
            "torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2, "ddp_used": True},
            {"from_start": True}, "after DDP had made them equal", "before Distributed",
        ),
        (
            "torch.distributed", {"ddp_ours": 1, "ddp_ranks": 2, "ddp_used": True}, {},
            "steps are its own", "after each change of the model",
        ),
        ("torch.distributed", {}, {"overwritten": True}, "replace all others'", "all_reduce"),
        (
            "torch.distributed", {"library": "keras"}, {}, "the model is not wrapped",
            "DistributedDataParallel(model)",
        ),
        ("Horovod", {"library": "keras", "tape": True}, {}, "tape is not wrapped", "GradientTape"),
        ("mpi4py", {}, {}, "mpi4py formed the world", "init_process_group()"),
        ("Horovod", {"library": "keras"}, {}, "neither optimizer nor tape", "DistributedGradient"),
        ("tf.distribute", {"library": "keras"}, {}, "outside of the strategy", "scope()"),
    ])  # fmt: skip
def test_likely_cause_and_fix(
    framework: str, facts: dict[str, Any], verdict: dict[str, Any], cause: str, remedy: str
) -> None:
    said = cause_of(replace(DIFFERENT, **verdict), framework, facts)
    assert cause in said[0]
    assert remedy in said[1]
