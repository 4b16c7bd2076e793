"""Reports of weights as they come from the ranks' processes, and what is kept and said of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.injob import run_files
from runners.injob.rank import weight_reports
from runners.injob.rank.weight_reports import WeightReports, cause_of
from runners.injob.rank.weights import END, LAST_TRACED, WeightResult, WeightsVerdict

from ..tables import each

TRACED = [1, *range(4, LAST_TRACED + 1)]


def fields(rank: int, sum_: int, process: int = 0, **more: Any) -> dict[str, Any]:
    """A report as it comes, after the 66th step: JSON has no numbers as keys."""
    traces = {str(step): sum_ for step in TRACED}
    return {
        "rank": rank, "size": 2, "process": process, "optimizer": "torch 0", "step": LAST_TRACED,
        "traces": traces, "losses": [], "checksums": [sum_], "values": [[sum_]], "names": ["w"],
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
    assert weight_reports.line(verdict) == (
        "runner: weights not checked: the check failed (ValueError: x)"
    )


def test_a_job_without_an_optimizer_is_not_checked() -> None:
    verdict, _ = WeightReports().verdict(over=True)
    assert weight_reports.line(verdict).startswith("runner: weights not checked: no optimizer of")


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
    run_files.forget(str(tmp_path), weight_reports.FILE)
    assert not (tmp_path / "weights.json").exists()


DIFFERENT = WeightsVerdict(WeightResult.DIFFERENT, parameter="head.bias")


@each(
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
        ("mpi4py", {}, {}, "mpi4py formed the world", "init_process_group()"),
        ("Horovod", {"library": "keras"}, {}, "neither optimizer nor tape", "DistributedGradient"),
        ("tf.distribute", {"library": "keras"}, {}, "outside of the strategy", "scope()"),
    )  # fmt: skip
def test_likely_cause_and_fix(
    framework: str, facts: dict[str, Any], verdict: dict[str, Any], cause: str, remedy: str
) -> None:
    said = cause_of(replace(DIFFERENT, **verdict), framework, facts)
    assert cause in said[0]
    assert remedy in said[1]
