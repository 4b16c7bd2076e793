"""Collects what all ranks report of their weights, for the verdict; keeps it in `weights.json`."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...contract.run_files import WEIGHTS
from .. import records
from .judge_weights import judge, not_checked
from .weights import (
    END,
    OPEN,
    SEVERITY,
    OptimizerReport,
    WeightResult,
    WeightSums,
    WeightsVerdict,
)

if TYPE_CHECKING:
    Ranks = Mapping[int, OptimizerReport]  # one optimizer's

VERSION = 1
FIELDS = (
    *("shapes", "names", "sharded", "may_differ", "layers", "processor", "losses", "inputs"),
    *("facts", "first", "loose", "replaced", "beside", "follows"),
)


class WeightReports:
    """The reports by optimizer, and by rank.

    A launcher may have started a rank again: each rank's first process is compared with the first
    of the others, and so on. `outside` has the steps of ranks whose process is in no process group;
    `unwatched` is how many optimizers were too many.
    """

    def __init__(self) -> None:
        self.reports: dict[tuple[int, str], dict[int, OptimizerReport]] = {}
        self.processes: dict[int, list[int]] = {}
        self.outside: dict[int, int] = {}
        self.unwatched = 0
        self.size = 1

    def hear(self, fields: Mapping[str, Any]) -> None:
        """Add a report; it has the fields that are new since the last one."""
        self.size = max(self.size, int(fields["size"]))
        rank, process = int(fields["rank"]), int(fields["process"])
        if "outside" in fields:
            self.outside[rank] = int(fields["outside"])
            return
        if "unwatched" in fields:
            self.unwatched = max(self.unwatched, int(fields["unwatched"]))
            return
        processes = self.processes.setdefault(rank, [])
        if process not in processes:
            processes.append(process)
        start = processes.index(process)
        name = str(fields["optimizer"])
        ranks = self.reports.setdefault((start, name), {})
        self._add(ranks.setdefault(rank, OptimizerReport(rank, name=name)), fields)
        if fields.get("gone") and len(ranks) == self.size:
            _forget_details(ranks)

    def _add(self, report: OptimizerReport, fields: Mapping[str, Any]) -> None:
        traces, moments = fields.get("traces", {}), fields.get("moments", {})
        report.traces.update({int(step): int(sum_) for step, sum_ in traces.items()})
        report.moments.update(
            {int(step): (moment[0], moment[1]) for step, moment in moments.items()}
        )
        if "last" in fields:
            report.last = fields["last"][0], fields["last"][1]
        if "checksums" in fields:
            report.checks[int(fields["step"])] = WeightSums(fields["checksums"], fields["values"])
        for name in FIELDS:
            if name in fields:
                setattr(report, name, fields[name])
        if "steps" in fields and fields["step"] == END:
            report.steps, report.changed = int(fields["steps"]), bool(fields["changed"])
        group = tuple(fields.get("group", report.group))
        report.group = group if 1 < len(group) < self.size else ()

    def verdict(self, over: bool) -> tuple[WeightsVerdict, Mapping[str, Any]]:
        """Return the worst verdict of all optimizers, and one rank's facts about it."""
        verdicts = []
        for ranks in self._optimizers(over):
            verdict = judge([*ranks.values()], self.size, over)
            first = next(iter(ranks.values()))
            severity = SEVERITY.index(verdict.result)
            verdicts.append((severity, first.steps or 0, verdict, first.facts))
        if not verdicts:
            return (self._without_reports() if over else OPEN), {}
        _, _, verdict, facts = max(verdicts, key=lambda row: row[:2])
        if self.unwatched and verdict.result is WeightResult.EQUAL:
            text = f"{verdict.text}; {self.unwatched} more optimizers were not watched"
            verdict = replace(verdict, text=text)
        return verdict, facts

    def _without_reports(self) -> WeightsVerdict:
        if not self.outside:
            return not_checked(
                "no optimizer of PyTorch or Keras made a step; what a script does to its weights "
                "itself is not seen"
            )
        rank, steps = min(self.outside.items())
        return not_checked(
            f"rank {rank} made {steps} steps in a process that is in no process group: another "
            "process of the rank is",
            "nothing can average what such processes train: create the process group in the "
            "process that trains",
        )

    def _optimizers(self, over: bool) -> list[Ranks]:
        """Return the reports to compare; a rank's own optimizers and inner loops come last."""
        if not over:
            return [ranks for _, ranks in sorted(self.reports.items())]
        groups: list[Ranks] = []
        for start in sorted({start for start, _ in self.reports}):
            groups += matched([self._of_rank(start, rank) for rank in range(self.size)])
        shared = [ranks for ranks in groups if len(ranks) == self.size]
        followers = self._followers()
        last = [ranks for ranks in shared if not _are_followed(ranks, followers)]
        steps = self._steps()
        inner = [
            ranks for ranks in last if all(_is_inner(report, steps) for report in ranks.values())
        ]
        shapes = {report.shapes for ranks in inner for report in ranks.values()}
        around = {name for ranks in inner for report in ranks.values() for name in report.beside}
        # Of the same shapes are the first inner loops, before the first step around them.
        outer = [
            ranks for ranks in last
            if not any(report.shapes in shapes for report in ranks.values())
            or any(report.name in around for report in ranks.values())
        ]  # fmt: skip
        return outer or last or groups

    def _followers(self) -> dict[str, set[int]]:
        """Return the ranks that went on to train an optimizer's parameters with another one."""
        followers: dict[str, set[int]] = {}
        for ranks in self.reports.values():
            for report in ranks.values():
                for name in report.follows:
                    followers.setdefault(name, set()).add(report.rank)
        return followers

    def _steps(self) -> dict[tuple[str, int], int]:
        """Return how many steps each optimizer of each rank made."""
        reports = (report for ranks in self.reports.values() for report in ranks.values())
        return {(report.name, report.rank): report.steps or 0 for report in reports}

    def _of_rank(self, start: int, rank: int) -> list[OptimizerReport]:
        """Return a rank's optimizers in the order of their first steps."""
        reports = [
            ranks[rank]
            for (of_start, _), ranks in self.reports.items()
            if of_start == start and rank in ranks
        ]
        return sorted(reports, key=lambda report: (len(report.name), report.name))


def _are_followed(ranks: Ranks, followers: Mapping[str, set[int]]) -> bool:
    """Whether each rank went on to train these parameters with another optimizer."""
    return set(ranks) <= set().union(*(followers.get(report.name, ()) for report in ranks.values()))


def _is_inner(report: OptimizerReport, steps: Mapping[tuple[str, int], int]) -> bool:
    """Whether all its steps came between two of another optimizer, as in meta-learning."""
    beside = report.beside.items()
    return any(steps.get((name, report.rank), 0) > before for name, before in beside)


def matched(lists: Sequence[Sequence[OptimizerReport]]) -> list[Ranks]:
    """Return which optimizers of the ranks are the same: by number, where all have as many.

    A rank may have more, as for a warm-up of its own. Then those count that begin at the same
    moment, else the last ones.
    """
    present = [reports for reports in lists if reports]
    if len(set(map(len, present))) > 1:
        fewest = min(present, key=len)
        lists = [_in_order_of(fewest, reports) for reports in lists]
    longest = max(map(len, lists))
    return [
        {reports[place].rank: reports[place] for reports in lists if place < len(reports)}
        for place in range(longest)
    ]


def _in_order_of(
    fewest: Sequence[OptimizerReport], reports: Sequence[OptimizerReport]
) -> list[OptimizerReport]:
    """Return a rank's optimizers, beginning with those that match another rank's few."""
    shapes, began = {report.shapes for report in fewest}, {report.first for report in fewest}
    alike = [report for report in reports if report.shapes in shapes]
    same = [report for report in alike if report.first in began]
    ours = same if len(same) == len(fewest) else alike[-len(fewest) :]
    first = set(map(id, ours))
    return [*ours, *(report for report in reports if id(report) not in first)]


def _forget_details(ranks: Ranks) -> None:
    """Drop details of optimizers that are gone and were equal: there may be thousands."""
    ends = [report.checks[END].checksums for report in ranks.values() if END in report.checks]
    if len(ends) == len(ranks) and all(sums == ends[0] for sums in ends):
        kept = WeightSums([zlib.crc32(repr(ends[0]).encode())], [])
        for report in ranks.values():
            report.checks, report.traces, report.names = {END: kept}, {}, ()


def lines(verdict: WeightsVerdict) -> str:
    """Return the lines for the end of the log."""
    equal = verdict.result in (WeightResult.EQUAL, WeightResult.COPIES)
    what = "equal on all ranks" if equal else "not checked"
    detail = f" ({verdict.text})" if equal else f": {verdict.text}"
    warning = f"\nrunner: warning: {verdict.warning}" if verdict.warning else ""
    return f"runner: weights {what}{detail}{warning}"


def keep(verdict: WeightsVerdict, run_dir: str) -> None:
    """Write the verdict into the run's folder, and into the trainer's result, if it wrote one."""
    value = {"version": VERSION, "result": verdict.result.value, "text": verdict.text}
    for name in ("parameter", "warning"):
        if getattr(verdict, name):
            value[name] = getattr(verdict, name)
    records.keep(run_dir, WEIGHTS, value, in_result="weights")
