"""What a study found, in sentences for its page and its figure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from .number_format import count, interval, number, percent
from .report import Report
from .summary import Comparison, Summary


def findings(report: Report) -> list[str]:
    """Return what a study found: how each way scales, then how they compare at the largest size."""
    scaled = [_scaled(own) for own in report.by_variant().values() if own[-1].ranks > own[0].ranks]
    last = {each.variant: each for each in report.comparisons}
    return scaled + [_compared(each) for each in last.values()]


def _scaled(points: Sequence[Summary]) -> str:
    first, last = points[0], points[-1]
    way = f"{last.variant}: " if last.variant else ""
    limits = interval(last.efficiency, share=True)
    return (
        f"{way}{count(last.ranks, 'rank')} on {count(last.nodes, 'node')} are "
        f"{number(last.speed_up.value)} times as fast as {count(first.ranks, 'rank')}: efficiency "
        f"{percent(last.efficiency.value)}" + (f" (95 % interval {limits})" if limits else "")
    )


def _compared(each: Comparison) -> str:
    limits, where = interval(each.ratio), f"on {count(each.ranks, 'rank')}"
    times = f"{number(each.ratio.value)} times"
    if limits and not each.sure:
        both = f"{each.variant} and {each.to} show no sure difference {where}"
        return f"{both} ({times}, 95 % interval {limits})"
    told = f"{each.variant} is {times} as fast as {each.to} {where}"
    return told + (f" (95 % interval {limits})" if limits else " (one run of each)")


def circumstances(report: Report) -> str:
    """Return what was measured with, where and when, in a line."""
    runs = report.runs
    images = sorted({PurePath(run.image).name for run in runs if run.image})
    devices = sorted({run.device for run in runs if run.device})
    hosts = sorted({host for run in runs for host in run.hosts}, key=lambda name: (len(name), name))
    day = max((run.finished[:10] for run in runs), default="")
    facts = [", ".join(images), ", ".join(devices), _hosts(hosts)]
    facts += [f"{count(report.question.repeats, 'run')} of each size", day]
    return "  ·  ".join(fact for fact in facts if fact)


def _hosts(names: Sequence[str]) -> str:
    if len(names) <= 4:
        return ", ".join(names)
    return f"{len(names)} hosts, {names[0]} to {names[-1]}"
