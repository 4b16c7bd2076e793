"""What a reader of a study has to be warned of: as values, and as sentences. Pure."""

from __future__ import annotations

import statistics
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import confidence
from .measure import Measured
from .number_format import count, percent
from .references import TOO_GOOD
from .summary import Summary

NOISY_RUNS = 0.05  # coefficient of variation between repeats
NOISY_EPOCHS = 0.10  # and between the epochs of one run
UNEQUAL_HOSTS = 0.10  # between the speeds of single hosts
WORSE = 0.02  # accuracy lost against the smallest size
FEW = 3  # runs
SHORT = 10.0  # seconds of steady training


@dataclass(frozen=True)
class Caution:
    """One warning: its kind, the point it is about (None for the whole study), and its numbers."""

    kind: str
    variant: str = ""
    nodes: int | None = None
    ranks: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def cautions(points: Sequence[Summary], repeats: int) -> list[Caution]:
    """Return all warnings, those that put the results in doubt first."""
    if not points:
        return []
    runs = [run for point in points for run in point.runs]
    cautions = [
        *_too_good(points),
        *_noisy(points),
        *_hosts(points),
    ]
    cautions += [*_accuracy(points), *_software(runs), *_resumed(runs), *_missing(points, repeats)]
    return [*cautions, *_short(points), *_baseline(points)]


def _at(kind: str, point: Summary, **facts: Any) -> Caution:
    return Caution(kind, point.variant, point.nodes, point.ranks, facts)


def _too_good(points: Sequence[Summary]) -> Iterator[Caution]:
    for point in points:
        if point.efficiency.value > TOO_GOOD:
            yield _at("too-good", point, efficiency=point.efficiency.value)


def _noisy(points: Sequence[Summary]) -> Iterator[Caution]:
    def of_runs(point: Summary) -> float:
        return confidence.spread([run.rate for run in point.runs]) or 0.0

    def of_epochs(point: Summary) -> float:
        spreads = [confidence.spread(run.rates) for run in point.runs]
        return statistics.median([s for s in spreads if s is not None] or [0.0])

    yield from _worst("noisy-runs", points, of_runs, NOISY_RUNS)
    yield from _worst("noisy-epochs", points, of_epochs, NOISY_EPOCHS)


def _worst(
    kind: str, points: Sequence[Summary], spread: Callable[[Summary], float], limit: float
) -> Iterator[Caution]:
    """Yield one warning for all points that spread more than the limit, about the worst of them."""
    above = [point for point in points if spread(point) > limit]
    if above:
        worst = max(above, key=spread)
        facts = {"spread": spread(worst), "points": len(above), "of": len(points), "limit": limit}
        yield _at(kind, worst, **facts)


def _hosts(points: Sequence[Summary]) -> Iterator[Caution]:
    """Compare hosts by the runs that had a single one: what several did is nobody's own."""
    for point in points:
        by_host: dict[str, list[float]] = {}
        for run in point.runs:
            if len(set(run.hosts)) == 1:
                by_host.setdefault(run.hosts[0], []).append(run.rate)
        means = sorted((statistics.fmean(rates), host) for host, rates in by_host.items())
        if len(means) > 1 and means[-1][0] / means[0][0] > 1 + UNEQUAL_HOSTS:
            (slow, slowest), (fast, fastest) = means[0], means[-1]
            facts = {"fastest": fastest, "slowest": slowest, "faster": fast / slow - 1}
            yield _at("unequal-hosts", point, **facts)
    for point in points:
        if len({(run.device, run.threads) for run in point.runs}) > 1:
            yield _at("unequal-devices", point)


def _accuracy(points: Sequence[Summary]) -> Iterator[Caution]:
    base: Summary | None = None
    for point in points:
        base = point if point.base or base is None else base
        if base.accuracy is not None and point.accuracy is not None:
            lost = base.accuracy - point.accuracy
            if lost > WORSE:
                yield _at("accuracy", point, accuracy=point.accuracy, lost=lost, base=base.ranks)


def _software(runs: Sequence[Measured]) -> Iterator[Caution]:
    """Versions may differ between variants, which are there to differ, not within one."""
    for variant in dict.fromkeys(run.variant for run in runs):
        own = [run.versions for run in runs if run.variant == variant]
        names = {name for versions in own for name in versions}
        changed = [n for n in sorted(names) if len({versions.get(n) for versions in own}) > 1]
        if changed:
            yield Caution("software", variant, facts={"names": changed})


def _resumed(runs: Sequence[Measured]) -> Iterator[Caution]:
    folders = [run.folder for run in runs if run.resumed]
    if folders:
        yield Caution("resumed", facts={"folders": folders})


def _missing(points: Sequence[Summary], repeats: int) -> Iterator[Caution]:
    for point in points:
        if len(point.runs) < min(FEW, repeats):
            yield _at("missing", point, runs=len(point.runs), repeats=repeats)
    if repeats == 1:
        yield Caution("one-run")
    elif repeats < FEW:
        facts = {"repeats": repeats, "quantile": confidence.quantile(repeats - 1)}
        yield Caution("few-runs", facts=facts)


def _short(points: Sequence[Summary]) -> Iterator[Caution]:
    short: list[tuple[float, Summary]] = []
    for point in points:
        steady = [(r.epoch_seconds or 0) * len(r.rates) for r in point.runs if r.rates]
        if steady and statistics.median(steady) < SHORT:
            short.append((statistics.median(steady), point))
    if short:
        seconds, point = min(short, key=lambda each: each[0])
        yield _at("short", point, points=len(short), seconds=seconds)


def _baseline(points: Sequence[Summary]) -> Iterator[Caution]:
    base = {point.ranks for point in points if point.base}
    # At a single size nothing is compared with it.
    if base and min(base) > 1 and len({point.ranks for point in points}) > 1:
        yield Caution("baseline", ranks=min(base))


class _Words(string.Formatter):
    """Formats a `percent`, `all` names or the `first` five of them, and a `count` of things."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "percent":
            return percent(value)
        if format_spec == "all":
            return ", ".join(value)
        if format_spec == "first":
            return ", ".join(value[:5]) + (f" and {len(value) - 5} more" if value[5:] else "")
        if format_spec.startswith("count "):
            return count(value, format_spec[6:])
        return str(super().format_field(value, format_spec))


# What is told of each kind; the numbers are the caution's facts.
TOLD = {
    "too-good": "{at}: efficiency {efficiency:percent}. Above {limit:percent} the smallest size "
    "was slow, cold or short of memory. Repeat it, or drop more epochs.",
    "noisy-runs": "{at}: the runs differ by {spread:percent} (coefficient of variation).{more} "
    "Something else shared the machine.",
    "noisy-epochs": "{at}: the epochs of a run differ by {spread:percent} (coefficient of "
    "variation).{more} Longer epochs are steadier.",
    "unequal-hosts": "{at}: {fastest} is {faster:percent} faster than {slowest}. Runs on several "
    "hosts go at the slowest's.",
    "unequal-devices": "{at}: the runs had different devices or numbers of threads: compare the "
    "columns of results.csv.",
    "accuracy": "{at}: accuracy {accuracy:.3f}, {lost:.3f} below that of {base:count rank}. Speed "
    "that costs accuracy is no gain: see --warmup-epochs, --base-lr and the number of epochs.",
    "software": "{variant}: not all with the same {names:all}.",
    "resumed": "Resumed from a checkpoint, so start-up and an epoch may be incomplete: "
    "{folders:first}.",
    "missing": "{at}: {runs:count run} of {repeats} measured; the others failed or are to come.",
    "one-run": "One run at each size: no intervals, and noise cannot be told from scaling. "
    "--repeats 3 or more.",
    "few-runs": "{repeats} runs at each size: Student's t is {quantile:.1f}, and intervals are "
    "wide. --repeats 3 or more.",
    "short": "{points:count point} measured over less than {limit:.0f} s of training ({at}: "
    "{seconds:.1f} s). Train more epochs.",
    "baseline": "The smallest size has {ranks} ranks: its own communication counts as none.",
}
MORE = " At {points} of {of} points more than {limit:percent}."
LIMITS = {"too-good": TOO_GOOD, "short": SHORT}


def told(each: Caution) -> str:
    way = f"{each.variant}, " if each.variant else ""
    at = "" if each.nodes is None else f"{way}{count(each.nodes, 'node')}, "
    at += count(each.ranks or 0, "rank") if at else ""
    facts = {"limit": LIMITS.get(each.kind), "ranks": each.ranks, **each.facts}
    words = _Words()
    more = words.vformat(MORE, (), facts) if facts.get("of") and facts["points"] > 1 else ""
    facts |= {"at": at, "variant": each.variant or "The runs", "more": more}
    return words.vformat(TOLD[each.kind], (), facts)
