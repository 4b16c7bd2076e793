"""What all ranks report of their weights, put together for the verdict, and where that is kept."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from .. import run_files
from .weights import (
    OPEN,
    SEVERITY,
    Check,
    OptimizerReport,
    Result,
    WeightsVerdict,
    judge,
    not_checked,
)

VERSION = 1
FILE, RESULT = "weights.json", "result.json"


class Scorecard:
    """Reports by the optimizer, and by rank.

    Of each rank one process after another may train, where a launcher has started it again: only
    first ones are compared with first ones, and so on.
    """

    def __init__(self) -> None:
        self.reports: dict[tuple[int, str], dict[int, OptimizerReport]] = {}
        self.processes: dict[int, list[int]] = {}
        self.size = 1

    def hear(self, fields: Mapping[str, Any]) -> None:
        """Add a report, of which a part may be known."""
        self.size = max(self.size, int(fields["size"]))
        rank, process = int(fields["rank"]), int(fields["process"])
        processes = self.processes.setdefault(rank, [])
        if process not in processes:
            processes.append(process)
        start = processes.index(process)
        ranks = self.reports.setdefault((start, str(fields["optimizer"])), {})
        report = ranks.setdefault(rank, OptimizerReport(rank))
        report.traces.update({int(step): int(sum_) for step, sum_ in fields["traces"].items()})
        if "checksums" in fields:
            report.checks[int(fields["step"])] = Check(fields["checksums"], fields["values"])
        for name in ("shapes", "names", "sharded", "may_differ", "processor", "losses", "facts"):
            if name in fields:
                setattr(report, name, fields[name])
        if "steps" in fields:
            report.steps, report.changed = int(fields["steps"]), bool(fields["changed"])
        group = tuple(fields.get("group", report.group))
        report.group = group if 1 < len(group) < self.size else ()

    def verdict(self, over: bool) -> tuple[WeightsVerdict, Mapping[str, Any]]:
        """Return the worst verdict of all optimizers, and one rank's facts about it."""
        found = [
            (judge(list(ranks.values()), self.size, over), next(iter(ranks.values())).facts)
            for _, ranks in sorted(self.reports.items())
        ]
        if not found:
            reason = "no optimizer of PyTorch or Keras made a step"
            return (not_checked(reason) if over else OPEN), {}
        return max(found, key=lambda one: SEVERITY.index(one[0].result))


def line(verdict: WeightsVerdict) -> str:
    """Return the line for the end of the log."""
    if verdict.result is Result.EQUAL:
        return f"runner: weights equal on all ranks ({verdict.text})"
    if verdict.result is Result.COPIES:
        return (
            f"runner: weights equal on all ranks\nrunner: warning: {verdict.text}: each rank "
            "should read its own part of the data (DistributedSampler, shard)"
        )
    return f"runner: weights not checked: {verdict.text}"


def forget(run_dir: str) -> None:
    """Remove the verdict on an earlier start of the job."""
    with contextlib.suppress(OSError):
        os.remove(os.path.join(run_dir, FILE))


def keep(verdict: WeightsVerdict, run_dir: str) -> None:
    """Write the verdict into the run's folder, and into the trainer's result, if it wrote one."""
    value = {"version": VERSION, "result": verdict.result.value, "text": verdict.text}
    if verdict.parameter:
        value["parameter"] = verdict.parameter
    with contextlib.suppress(OSError, ValueError):  # a full disk; a result of another form
        run_files.write_json(os.path.join(run_dir, FILE), value)
        path = os.path.join(run_dir, RESULT)
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        if isinstance(result, dict):
            run_files.write_json(path, {**result, "weights": value}, indent=2)
