"""What a reader of a study has to be warned of. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import confidence
from .measure import Measured
from .number_format import count
from .summary import Summary

TOO_GOOD = 1.05  # efficiency: what is above is no scaling but a slow baseline
NOISY_RUNS = 0.05  # coefficient of variation between repeats
NOISY_EPOCHS = 0.10  # and between the epochs of one run
UNEQUAL_HOSTS = 0.10  # between the speeds of single hosts
FALLING = 0.05  # share of its speed that a run loses from its first steady epoch to its last
WORSE = 0.02  # accuracy lost against the smallest size
FEW = 3  # runs
SHORT = 10.0  # seconds of steady training


@dataclass(frozen=True)
class Caution:
    """One warning: its kind, for programs, and what to read."""

    kind: str
    text: str


def cautions(points: Sequence[Summary], repeats: int) -> list[Caution]:
    """Return all warnings, those that put the results in doubt first."""
    if not points:
        return []
    runs = [run for point in points for run in point.runs]
    found = [*_too_good(points), *_noisy(points), *_hosts(points), *_falling(runs)]
    found += [*_accuracy(points), *_software(runs), *_resumed(runs), *_missing(points, repeats)]
    return [*found, *_short(points), *_baseline(points)]


def _at(point: Summary) -> str:
    way = f"{point.variant}, " if point.variant else ""
    return f"{way}{count(point.nodes, 'node')}, {count(point.ranks, 'rank')}"


def _too_good(points: Sequence[Summary]) -> Iterator[Caution]:
    for point in points:
        value = point.efficiency.value
        if value > TOO_GOOD:
            text = (
                f"{_at(point)}: efficiency {value:.0%}. Above {TOO_GOOD:.0%} it is no scaling: the "
                "smallest size was slow, cold or short of memory. Repeat it, or drop more epochs."
            )
            yield Caution("too-good", text)


def _noisy(points: Sequence[Summary]) -> Iterator[Caution]:
    between = [(confidence.spread([run.rate for run in p.runs]) or 0.0, p) for p in points]
    text = _worst("the runs differ by", between, NOISY_RUNS)
    if text:
        yield Caution("noisy-runs", f"{text} Something else shared the machine.")
    within = [(statistics.median(_within(p) or [0.0]), p) for p in points]
    text = _worst("the epochs of a run differ by", within, NOISY_EPOCHS)
    if text:
        yield Caution("noisy-epochs", f"{text} Longer epochs are steadier.")


def _within(point: Summary) -> list[float]:
    return [s for s in (confidence.spread(run.rates) for run in point.runs) if s is not None]


def _worst(what: str, found: Sequence[tuple[float, Summary]], limit: float) -> str:
    """Return one sentence for all points above the limit, with the worst of them; "" for none."""
    above = [each for each in found if each[0] > limit]
    if not above:
        return ""
    most, point = max(above, key=lambda each: each[0])
    others = f" At {len(above)} of {len(found)} points more than {limit:.0%}." if above[1:] else ""
    return f"{_at(point)}: {what} {most:.0%} (coefficient of variation).{others}"


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
            text = f"{_at(point)}: {fastest} is {fast / slow - 1:.0%} faster than {slowest}"
            yield Caution("unequal-hosts", f"{text}. Runs on several hosts go at the slowest's.")
    for point in points:
        if len({(run.device, run.threads) for run in point.runs}) > 1:
            text = f"{_at(point)}: the runs had different devices or numbers of threads"
            yield Caution("unequal-hosts", f"{text}: compare the columns of results.csv.")


def _falling(runs: Sequence[Measured]) -> Iterator[Caution]:
    for run in runs:
        fall = confidence.fall(run.rates)
        if fall is not None and fall > FALLING:
            text = f"{run.folder}: it lost {fall:.0%} of its speed from its first steady epoch on"
            yield Caution("falling", f"{text}. Heat (clocks that go down), or a neighbour.")


def _accuracy(points: Sequence[Summary]) -> Iterator[Caution]:
    base: Summary | None = None
    for point in points:
        base = point if point.base or base is None else base
        if base.accuracy is not None and point.accuracy is not None:
            lost = base.accuracy - point.accuracy
            if lost > WORSE:
                text = (
                    f"{_at(point)}: accuracy {point.accuracy:.3f}, {lost:.3f} below that of "
                    f"{count(base.ranks, 'rank')}. Speed that costs accuracy is no gain: see "
                    "--warmup-epochs, --base-lr and the number of epochs."
                )
                yield Caution("accuracy", text)


def _software(runs: Sequence[Measured]) -> Iterator[Caution]:
    """Versions may differ between variants, which are there to differ, not within one."""
    for variant in dict.fromkeys(run.variant for run in runs):
        own = [run.versions for run in runs if run.variant == variant]
        names = {name for versions in own for name in versions}
        changed = [n for n in sorted(names) if len({versions.get(n) for versions in own}) > 1]
        if changed:
            what = ", ".join(changed)
            yield Caution("software", f"{variant or 'The runs'}: not all with the same {what}.")


def _resumed(runs: Sequence[Measured]) -> Iterator[Caution]:
    names = [run.folder for run in runs if run.resumed]
    if names:
        text = f"Went on from a checkpoint, so start-up and an epoch may be broken: {_list(names)}"
        yield Caution("resumed", text)


def _missing(points: Sequence[Summary], repeats: int) -> Iterator[Caution]:
    few = [point for point in points if len(point.runs) < min(FEW, repeats)]
    for point in few:
        text = f"{_at(point)}: {count(len(point.runs), 'run')} of {repeats} measured"
        yield Caution("missing", f"{text}; the others failed or are to come.")
    if repeats == 1:
        text = "One run at each size: no intervals, and noise cannot be told from scaling"
        yield Caution("few-runs", f"{text}. --repeats 3 or more.")
    elif repeats < FEW:
        text = f"{repeats} runs at each size: Student's t is {confidence.quantile(repeats - 1):.1f}"
        yield Caution("few-runs", f"{text}, and intervals are wide. --repeats 3 or more.")


def _short(points: Sequence[Summary]) -> Iterator[Caution]:
    short = []
    for point in points:
        steady = [(r.epoch_seconds or 0) * len(r.rates) for r in point.runs if r.rates]
        if steady and statistics.median(steady) < SHORT:
            short.append((statistics.median(steady), _at(point)))
    if short:
        seconds, where = min(short)
        text = f"{count(len(short), 'point')} measured over less than {SHORT:.0f} s of training"
        yield Caution("short", f"{text} ({where}: {seconds:.1f} s). Train more epochs.")


def _baseline(points: Sequence[Summary]) -> Iterator[Caution]:
    base = {point.ranks for point in points if point.base}
    if base and min(base) > 1:
        text = f"The smallest size has {min(base)} ranks: its own communication counts as none"
        yield Caution("baseline", f"{text}.")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
