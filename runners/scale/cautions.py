"""Warnings about a study: noise, too few runs, unequal hosts, a slow smallest size. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.diagnosis import Diagnosis, Severity
from ..core.text import count, first_few
from . import confidence
from .measure import Measured
from .number_format import percent
from .summary import TOO_GOOD, Summary

NOISY_RUNS = 0.05  # coefficient of variation between repeats
NOISY_EPOCHS = 0.10  # and between the epochs of one run
UNEQUAL_HOSTS = 0.10  # between the speeds of single hosts
WORSE = 0.02  # accuracy lost against the smallest size
FEW = 3  # runs
SHORT = 10.0  # seconds of steady training
LISTED = 5  # folders


@dataclass(frozen=True)
class StudyCaution(Diagnosis):
    """A warning with the point that it is about (None for the whole study)."""

    variant: str = ""
    nodes: int | None = None
    ranks: int | None = None


def cautions(points: Sequence[Summary], repeats: int) -> list[StudyCaution]:
    """Return all warnings, those that put the results in doubt first."""
    if not points:
        return []
    runs = [run for point in points for run in point.runs]
    cautions = [*_too_good(points), *_noisy(points), *_hosts(points), *_accuracy(points)]
    cautions += [*_software(runs), *_resumed(runs), *_missing(points, repeats)]
    return [*cautions, *_short(points), *_baseline(points)]


def _at(id: str, point: Summary, text: str) -> StudyCaution:
    return _of(id, point, f"{_name(point)}: {text}")


def _of(id: str, point: Summary, text: str) -> StudyCaution:
    return replace(_whole(id, text), variant=point.variant, nodes=point.nodes, ranks=point.ranks)


def _whole(id: str, text: str) -> StudyCaution:
    return StudyCaution(id, Severity.WARNING, text)


def _name(point: Summary) -> str:
    parts = (point.variant, count(point.nodes, "node"), count(point.ranks, "rank"))
    return ", ".join(filter(None, parts))


def _too_good(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    for point in points:
        if point.efficiency.value > TOO_GOOD:
            what = f"efficiency {percent(point.efficiency.value)}. Above {percent(TOO_GOOD)} the"
            why = "smallest size was slow, cold or short of memory. Repeat it, or drop more epochs."
            yield _at("too-good", point, f"{what} {why}")


def _noisy(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    def of_runs(point: Summary) -> float:
        return confidence.spread([run.rate for run in point.runs]) or 0.0

    def of_epochs(point: Summary) -> float:
        spreads = [confidence.spread(run.rates) for run in point.runs]
        return statistics.median([s for s in spreads if s is not None] or [0.0])

    why = "Something else shared the machine."
    yield from _worst("noisy-runs", "the runs", why, points, of_runs, NOISY_RUNS)
    why = "Longer epochs are steadier."
    yield from _worst("noisy-epochs", "the epochs of a run", why, points, of_epochs, NOISY_EPOCHS)


def _worst(
    id: str, quantity: str, why: str, points: Sequence[Summary],
    spread: Callable[[Summary], float], limit: float,
) -> Iterator[StudyCaution]:  # fmt: skip
    """Yield one warning for all points that spread more than the limit, about the worst of them."""
    above = [point for point in points if spread(point) > limit]
    if not above:
        return
    worst = max(above, key=spread)
    text = f"{quantity} differ by {percent(spread(worst))} (coefficient of variation)."
    if len(above) > 1:
        text += f" At {len(above)} of {len(points)} points more than {percent(limit)}."
    yield _at(id, worst, f"{text} {why}")


def _hosts(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    """Compare hosts by the runs that had a single one: what several did is nobody's own."""
    for point in points:
        by_host: dict[str, list[float]] = {}
        for run in point.runs:
            if len(set(run.hosts)) == 1:
                by_host.setdefault(run.hosts[0], []).append(run.rate)
        means = sorted((statistics.fmean(rates), host) for host, rates in by_host.items())
        if len(means) > 1 and means[-1][0] / means[0][0] > 1 + UNEQUAL_HOSTS:
            (slow, slowest), (fast, fastest) = means[0], means[-1]
            text = f"{fastest} is {percent(fast / slow - 1)} faster than {slowest}."
            yield _at("unequal-hosts", point, f"{text} Runs on several hosts go at the slowest's.")
        if len({(run.device, run.threads) for run in point.runs}) > 1:
            text = "the runs had different devices or numbers of threads: compare the columns of"
            yield _at("unequal-devices", point, f"{text} results.csv.")


def _accuracy(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    base: Summary | None = None
    for point in points:
        base = point if point.base or base is None else base
        if base.accuracy is None or point.accuracy is None:
            continue
        lost, of = base.accuracy - point.accuracy, count(base.ranks, "rank")
        if lost > WORSE:
            text = f"accuracy {point.accuracy:.3f}, {lost:.3f} below that of {of}. Speed that costs"
            hint = "see --warmup-epochs, --base-lr and the number of epochs."
            yield _at("accuracy", point, f"{text} accuracy is no gain: {hint}")


def _software(runs: Sequence[Measured]) -> Iterator[StudyCaution]:
    """Versions may differ between variants, which are there to differ, not within one."""
    for variant in dict.fromkeys(run.variant for run in runs):
        software = [run.versions for run in runs if run.variant == variant]
        names = {name for versions in software for name in versions}
        changed = [n for n in sorted(names) if len({versions.get(n) for versions in software}) > 1]
        if changed:
            text = f"{variant or 'The runs'}: not all with the same {', '.join(changed)}."
            yield replace(_whole("software", text), variant=variant)


def _resumed(runs: Sequence[Measured]) -> Iterator[StudyCaution]:
    folders = [run.folder for run in runs if run.resumed]
    if folders:
        text = "Resumed from a checkpoint, so start-up and an epoch may be incomplete: "
        yield _whole("resumed", f"{text}{first_few(folders, LISTED)}.")


def _missing(points: Sequence[Summary], repeats: int) -> Iterator[StudyCaution]:
    for point in points:
        if len(point.runs) < min(FEW, repeats):
            measured = f"{count(len(point.runs), 'run')} of {repeats} measured"
            yield _at("missing", point, f"{measured}; the others failed or are to come.")
    if repeats == 1:
        text = "One run at each size: no intervals, and noise cannot be told from scaling."
        yield _whole("one-run", f"{text} --repeats 3 or more.")
    elif repeats < FEW:
        text = f"{repeats} runs at each size: too few for intervals."
        yield _whole("few-runs", f"{text} --repeats 3 or more.")


def _short(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    short: list[tuple[float, Summary]] = []
    for point in points:
        steady = [(r.epoch_seconds or 0) * len(r.rates) for r in point.runs if r.rates]
        if steady and statistics.median(steady) < SHORT:
            short.append((statistics.median(steady), point))
    if short:
        seconds, point = min(short, key=lambda measured: measured[0])
        what = f"{count(len(short), 'point')} measured over less than {SHORT:.0f} s of training"
        text = f"{what} ({_name(point)}: {seconds:.1f} s). Train more epochs."
        yield _of("short", point, text)


def _baseline(points: Sequence[Summary]) -> Iterator[StudyCaution]:
    base = {point.ranks for point in points if point.base}
    # At a single size nothing is compared with it.
    if base and min(base) > 1 and len({point.ranks for point in points}) > 1:
        text = f"The smallest size has {min(base)} ranks: its own communication counts as none."
        yield replace(_whole("baseline", text), ranks=min(base))
