"""Judges from the ranks' reports of one optimizer whether they train one model.

Weights are compared at equal moments: after the same number of collectives, and of steps since. The
last weights overrule the earlier ones. Where they differ, the training may still be right: local
SGD averages now and then, a rank may go on alone, layers may be split over ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .weights import (
    AFTER_END,
    END,
    FIRST_COMPARED,
    LAST_TRACED,
    OPEN,
    ROUNDING,
    ROUNDING_OF_MIXED_PROCESSORS,
    SEVERITY,
    OptimizerReport,
    WeightResult,
    WeightSums,
    WeightsVerdict,
)

if TYPE_CHECKING:
    Reports = Sequence[OptimizerReport]

NOW_AND_THEN = "they are averaged now and then (local SGD)"
LAYERS = "layers exchange what they compute (tensor parallelism)"


def not_checked(reason: str, warning: str = "") -> WeightsVerdict:
    return WeightsVerdict(WeightResult.NOT_CHECKED, reason, warning=warning)


def judge(reports: Reports, size: int, over: bool) -> WeightsVerdict:
    """Return whether the ranks' reports of one optimizer are of one model.

    `over` is whether all ranks have ended.
    """
    if reasons := [report.sharded for report in reports if report.sharded]:
        return not_checked(reasons[0])
    missing = sorted(set(range(size)) - {report.rank for report in reports})
    if missing:
        return not_checked(f"rank {missing[0]} made no step of this optimizer") if over else OPEN
    if not _alike(report.shapes for report in reports):
        return not_checked("the ranks train different parameters")
    groups: dict[tuple[int, ...], list[OptimizerReport]] = {}
    for report in sorted(reports, key=lambda report: report.rank):
        groups.setdefault(report.group, []).append(report)
    decide = _at_the_end if over else _before_the_end
    verdicts = [decide(group) for group in groups.values() if len(group) > 1]
    if not verdicts:
        return not_checked("each rank has a process group of its own")
    worst = max(verdicts, key=lambda verdict: SEVERITY.index(verdict.result))
    if worst.result in (WeightResult.EQUAL, WeightResult.COPIES) and len(groups) > 1:
        return not_checked(f"equal within each of {len(groups)} process groups")
    return worst


def compared(reports: Reports) -> dict[tuple[int, int], bool]:
    """Return whether the weights were equal, by moment that all ranks have traced, in order."""
    traced = [
        {
            report.moments[step]: sum_
            for step, sum_ in report.traces.items()
            if step >= FIRST_COMPARED
        }
        for report in reports
    ]
    common = sorted(set.intersection(*map(set, traced)))
    return {moment: _alike(sums[moment] for sums in traced) for moment in common}


def _before_the_end(reports: Reports) -> WeightsVerdict:
    """Return DIFFERENT where the ranks were never equal and have come far enough to tell."""
    if _where_checked(reports, LAST_TRACED) is None or any(compared(reports).values()):
        return OPEN
    verdict = _difference(reports, LAST_TRACED)
    return verdict if verdict.result is WeightResult.DIFFERENT else OPEN


def _where_checked(reports: Reports, step: int) -> tuple[int, int] | None:
    """Return the moment at which all ranks reported a step's weights, None if not the same."""
    if not all(step in report.checks and step in report.moments for report in reports):
        return None
    moment = reports[0].moments[step]
    same = _alike(report.moments[step] for report in reports) and moment[0] >= 0
    return moment if same else None


def _at_the_end(reports: Reports) -> WeightsVerdict:
    seen = [*compared(reports).values()]
    if not all(END in report.checks for report in reports):
        return _without_the_last(reports, seen)
    last = (
        [report.checks.get(step, report.checks[END]) for report in reports]
        for step in (END, AFTER_END)
    )
    if any(_alike(tuple(check.checksums) for check in checks) for checks in last):
        return _equal(reports, END)
    if any(report.changed for report in reports):
        return _before_the_change(reports, seen)
    verdict = _difference(reports, END)
    if verdict.result is not WeightResult.DIFFERENT:
        return verdict
    return _of_different_ends(reports, seen, verdict)


def _without_the_last(reports: Reports, seen: list[bool]) -> WeightsVerdict:
    if seen and seen[-1]:
        return _equal(reports, min(max(report.traces) for report in reports))
    known = _first_known(reports)
    if not any(seen) and known is not None:
        return _difference(reports, known)
    return not_checked("not all ranks reported their last weights")


def _before_the_change(reports: Reports, seen: list[bool]) -> WeightsVerdict:
    """Return the verdict where weights were loaded after the last step, as on rank 0."""
    known = _first_known(reports)
    if not any(seen) and known is not None:
        return _difference(reports, known)
    if not seen or not seen[-1] or not _alike(report.steps for report in reports):
        return not_checked("weights were loaded after the last step", _differ(reports))
    return _equal(reports, min(max(report.traces) for report in reports))


def _of_different_ends(
    reports: Reports, seen: list[bool], verdict: WeightsVerdict
) -> WeightsVerdict:
    """Return DIFFERENT, unless a right training may end so."""
    warning = _differ(reports)
    if root := _overwriting(reports, seen):
        return replace(verdict, overwritten=True, text=f"{verdict.text}; {root}")
    if any(now and not before for before, now in zip(seen, seen[1:])):
        return not_checked(f"the ranks' weights were equal at times: {NOW_AND_THEN}", warning)
    if (seen and not any(seen)) or _never_exchanged(reports) or _ended_together(reports):
        return verdict
    steps = [report.steps or 0 for report in reports]
    alone = [report.last[1] for report in reports]
    if max(alone) > 1 and not _alike(alone):
        rank = reports[alone.index(max(alone))].rank
        reason = f"rank {rank} made {max(alone)} steps after the last exchange with others"
    else:
        reason = f"the ranks made {min(steps)} to {max(steps)} steps"
    return not_checked(reason, warning)


def _never_exchanged(reports: Reports) -> bool:
    """Whether no collective came between the first and the last of equally many steps."""
    counted = all(report.first is not None and report.last[0] == report.first for report in reports)
    return counted and _alike(report.steps for report in reports)


def _ended_together(reports: Reports) -> bool:
    """Whether the ranks made their last step at the same moment."""
    if all(report.last[0] < 0 for report in reports):
        return _alike(report.steps for report in reports)
    return _alike(report.last for report in reports)


def _overwriting(reports: Reports, seen: list[bool]) -> str:
    """Return a sentence on the rank whose weights replaced all others'; "" without one."""
    if not any(seen) or not all(report.loose for report in reports):
        return ""
    roots = [report.rank for report in reports if not report.replaced]
    return f"rank {roots[0]}'s weights replace all others'" if len(roots) == 1 else ""


def _first_known(reports: Reports) -> int | None:
    """Return a step at which all ranks have reported weights at the same moment."""
    for step in (LAST_TRACED, FIRST_COMPARED):
        moments = [report.moments.get(step) for report in reports]
        if all(step in report.checks for report in reports) and _alike(moments):
            return step
    return None


def _alike(values: Iterable[Any]) -> bool:
    return len(set(values)) == 1


def _differ(reports: Reports) -> str:
    """Return a sentence on how the last weights differ, "" if by rounding only."""
    where = _where_apart(reports, END)
    return f"the ranks' weights differ: {where.text}" if where else ""


def _equal(reports: Reports, step: int) -> WeightsVerdict:
    after = _after(reports, step)
    if _varied_and_alike(report.losses for report in reports):
        return _copies(reports, after, "the first three losses are equal on all ranks too")
    if _varied_and_alike(report.inputs for report in reports):
        return _copies(reports, after, "three inputs of the model are equal on all ranks too")
    root = _overwriting(reports, [True])
    warning = f"{root}, and nothing averages: the others' work is lost" if root else ""
    return WeightsVerdict(WeightResult.EQUAL, after, warning=warning)


def _varied_and_alike(values: Iterable[Sequence[float]]) -> bool:
    sets = {tuple(numbers) for numbers in values}
    first = next(iter(sets))
    return len(sets) == 1 and len(first) == 3 and len(set(first)) > 1


def _copies(reports: Reports, after: str, sign: str) -> WeightsVerdict:
    text = f"{sign}: {len(reports)} copies of one training"
    advice = "each rank should read its own part of the data (DistributedSampler, shard)"
    return WeightsVerdict(WeightResult.COPIES, after, warning=f"{text}: {advice}")


def _after(reports: Reports, step: int) -> str:
    if reports[0].facts.get("tape"):
        return "at the end"  # graphs do not tell how often they ran
    return f"after {reports[0].steps if step == END else step - 1} steps"


@dataclass(frozen=True)
class _Apart:
    """The first parameter that differs, and whether others are equal."""

    parameter: str
    partly: bool
    text: str


def _where_apart(reports: Reports, step: int) -> _Apart | None:
    """Return where the weights differ by more than rounding."""
    gaps = differences([report.checks[step] for report in reports])
    tolerance = _tolerance(reports)
    place = next((place for place, gap in enumerate(gaps) if gap > tolerance), None)
    if place is None:
        return None
    names = next((report.names for report in reports if report.names), ())
    name = names[place] if place < len(names) else f"parameter {place}"
    return _Apart(name, min(gaps) <= tolerance, f"{_after(reports, step)} {name} differs")


def _tolerance(reports: Reports) -> float:
    same = _alike(report.processor for report in reports)
    return ROUNDING if same else ROUNDING_OF_MIXED_PROCESSORS


def _difference(reports: Reports, step: int) -> WeightsVerdict:
    """Return DIFFERENT, unless the weights differ by rounding only, or may differ."""
    apart = _where_apart(reports, step)
    if apart is None:
        worst = max(differences([report.checks[step] for report in reports]), default=0.0)
        return not_checked(f"the ranks' weights differ by rounding only ({worst:.0e})")
    if reason := _why_they_may(reports, apart.partly):
        return not_checked(reason, f"the ranks' weights differ: {apart.text}")
    return WeightsVerdict(
        WeightResult.DIFFERENT,
        f"the ranks train different models: {apart.text}",
        apart.parameter,
        partly=apart.partly,
        from_start=not _alike(report.traces.get(1) for report in reports),
        uneven=step == END and not _alike(report.steps for report in reports),
    )


def _why_they_may(reports: Reports, partly: bool) -> str:
    if reasons := [report.may_differ for report in reports if report.may_differ]:
        return reasons[0]
    # Ranks that split layers have the same data, and the same losses; experts have equal layers
    # beside their own. Else it may be a loss that all ranks' features go into.
    if all(report.layers for report in reports) and (partly or _same_losses(reports)):
        return LAYERS
    return ""


def _same_losses(reports: Reports) -> bool:
    steps = zip(*(report.losses for report in reports))
    return all(math.isclose(loss, losses[0], rel_tol=1e-5) for losses in steps for loss in losses)


def differences(checks: Sequence[WeightSums]) -> list[float]:
    """Return how much each parameter differs, relative to the mean of its values."""
    gaps = []
    for place, sums in enumerate(zip(*(check.checksums for check in checks))):
        values = [check.values[place] if place < len(check.values) else () for check in checks]
        gaps.append(0.0 if _alike(sums) else _relative(values))
    return gaps


def _relative(values: Sequence[Sequence[float]]) -> float:
    first = values[0]
    means = [sum(map(abs, numbers)) / max(len(numbers), 1) for numbers in values]
    gaps = [abs(a - b) for numbers in values[1:] for a, b in zip(first, numbers)]
    gap, mean = max(gaps, default=0.0), max(means)
    if not math.isfinite(gap) or not math.isfinite(mean):
        return math.inf  # one rank's loss has become NaN, the other's has not
    return gap / mean if gap else 0.0
