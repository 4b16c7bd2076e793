"""What a study found, and what to be warned of, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from . import cautions
from .cautions import Caution
from .number_format import count, interval, number, percent
from .references import TOO_GOOD
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


def caution(each: Caution) -> str:
    """Return a warning as it is read."""
    way = f"{each.variant}, " if each.variant else ""
    size = "" if each.nodes is None else f"{way}{count(each.nodes, 'node')}, "
    at = size and f"{size}{count(each.ranks or 0, 'rank')}"
    return CAUTIONS[each.kind](each, at, each.facts)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _noisy(at: str, what: str, facts: Mapping[str, Any], why: str) -> str:
    more = f" At {facts['points']} of {facts['of']} points more than {percent(facts['limit'])}."
    text = f"{at}: the {what} differ by {percent(facts['spread'])} (coefficient of variation)."
    return f"{text}{more if facts['points'] > 1 else ''} {why}"


CAUTIONS: dict[str, Callable[[Caution, str, Mapping[str, Any]], str]] = {
    "too-good": lambda each, at, facts: (
        f"{at}: efficiency {percent(facts['efficiency'])}. Above {percent(TOO_GOOD)} the "
        "smallest size was slow, cold or short of memory. Repeat it, or drop more epochs."
    ),
    "noisy-runs": lambda each, at, facts: _noisy(
        at, "runs", facts, "Something else shared the machine."
    ),
    "noisy-epochs": lambda each, at, facts: _noisy(
        at, "epochs of a run", facts, "Longer epochs are steadier."
    ),
    "unequal-hosts": lambda each, at, facts: (
        f"{at}: {facts['fastest']} is {percent(facts['faster'])} faster than {facts['slowest']}. "
        "Runs on several hosts go at the slowest's."
    ),
    "unequal-devices": lambda each, at, facts: (
        f"{at}: the runs had different devices or numbers of threads: compare the columns of "
        "results.csv."
    ),
    "falling": lambda each, at, facts: (
        f"{facts['folder']}: it lost {percent(facts['lost'])} of its speed from its first steady "
        "epoch on. Heat (clocks that go down), or a neighbour."
    ),
    "accuracy": lambda each, at, facts: (
        f"{at}: accuracy {facts['accuracy']:.3f}, {facts['lost']:.3f} below that of "
        f"{count(facts['base'], 'rank')}. Speed that costs accuracy is no gain: see "
        "--warmup-epochs, --base-lr and the number of epochs."
    ),
    "software": lambda each, at, facts: (
        f"{each.variant or 'The runs'}: not all with the same {', '.join(facts['names'])}."
    ),
    "resumed": lambda each, at, facts: (
        "Resumed from a checkpoint, so start-up and an epoch may be incomplete: "
        f"{_list(facts['folders'])}."
    ),
    "missing": lambda each, at, facts: (
        f"{at}: {count(facts['runs'], 'run')} of {facts['repeats']} measured; the others failed or "
        "are to come."
    ),
    "one-run": lambda each, at, facts: (
        "One run at each size: no intervals, and noise cannot be told from scaling. "
        "--repeats 3 or more."
    ),
    "few-runs": lambda each, at, facts: (
        f"{facts['repeats']} runs at each size: Student's t is {facts['quantile']:.1f}, and "
        "intervals are wide. --repeats 3 or more."
    ),
    "short": lambda each, at, facts: (
        f"{count(facts['points'], 'point')} measured over less than {cautions.SHORT:.0f} s of "
        f"training ({at}: {facts['seconds']:.1f} s). Train more epochs."
    ),
    "baseline": lambda each, at, facts: (
        f"The smallest size has {each.ranks} ranks: its own communication counts as none."
    ),
}
