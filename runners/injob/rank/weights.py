"""Whether the ranks train one model: the verdict on what they report of their weights.

Of each optimizer a rank reports a checksum of its parameters before steps 1, 4, 5, ... 66
(`traces`), and at the 4th, the 66th and at the end one for each parameter, with some of its values
(`checks`). Right ranks may differ in between: local SGD averages now and then. So only weights that
were equal at no step tell of a wrong training, and only where each rank has all parameters.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable

FIRST_COMPARED, LAST_TRACED = 4, 66
END = 0  # in place of a step: after the last one
# What watch_torch.py and watch_keras.py report
OPTIMIZERS = 16  # that are watched; more are made by who steps each parameter on its own
KEPT_BYTES = 1 << 28  # of parameters that are kept until the end, though their optimizer is gone
FEW, MANY = 64, 1024  # values of a parameter that a checksum is made of
VALUES = 1000  # that a report has
ROUNDING = 1e-5  # a relative difference that is one of rounding
ROUNDING_OF_MIXED_PROCESSORS = 1e-2  # which sums up over the steps


@dataclass(frozen=True)
class WeightSums:
    """Of each parameter a checksum, and some values."""

    checksums: Sequence[int]
    values: Sequence[Sequence[float]]


@dataclass
class OptimizerReport:
    """What a rank has reported of one optimizer.

    `group` are the ranks that are to have the same weights. `shapes` is a checksum of the
    parameters' shapes, `names` are theirs, rank 0's only. `sharded` is why they cannot be compared,
    `may_differ` why they may rightly be different.
    `steps` is how many it made in all, once it has ended, and `changed` whether the weights were
    changed after the last. `losses` are the first three. `facts` are what tells the cause.
    """

    rank: int
    group: tuple[int, ...] = ()
    shapes: int = 0
    names: Sequence[str] = ()
    sharded: str = ""
    may_differ: str = ""
    processor: str = ""
    traces: dict[int, int] = field(default_factory=dict)
    checks: dict[int, WeightSums] = field(default_factory=dict)
    steps: int | None = None
    changed: bool = False
    losses: Sequence[float] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class WeightResult(Enum):
    """The worst comes last. OPEN: nothing is known yet."""

    EQUAL = "equal"
    COPIES = "copies"
    OPEN = "open"
    NOT_CHECKED = "not-checked"
    DIFFERENT = "different"


SEVERITY = tuple(WeightResult)


@dataclass(frozen=True)
class WeightsVerdict:
    """`text` is for people, `parameter` the first that differs.

    `partly` is whether others are equal, `from_start` whether the first step found them different.
    """

    result: WeightResult
    text: str = ""
    parameter: str = ""
    partly: bool = False
    from_start: bool = False


OPEN = WeightsVerdict(WeightResult.OPEN)


@contextlib.contextmanager
def told_if_it_fails(
    tell: Callable[..., None], optimizer: str, about: dict[str, Any] | None = None
) -> Iterator[None]:
    """Report why an optimizer's weights could not be read, which is no fault of the training.

    From then on it is all that there is to know `about` them.
    """
    try:
        yield
    except Exception as error:
        about = {} if about is None else about
        about.clear()
        about["sharded"] = f"the check failed ({type(error).__name__}: {error})"[:200]
        tell(optimizer=optimizer, step=END, **about)


def not_checked(reason: str) -> WeightsVerdict:
    return WeightsVerdict(WeightResult.NOT_CHECKED, reason)


def judge(reports: Sequence[OptimizerReport], size: int, over: bool) -> WeightsVerdict:
    """Return whether the ranks' reports of one optimizer are of one model.

    `over` is whether all have ended, and nothing more will come.
    """
    if reasons := [one.sharded for one in reports if one.sharded]:
        return not_checked(reasons[0])
    missing = sorted(set(range(size)) - {one.rank for one in reports})
    if missing:
        return not_checked(f"rank {missing[0]} made no step of this optimizer") if over else OPEN
    if len({one.shapes for one in reports}) > 1:
        return not_checked("the ranks train different parameters")
    groups: dict[tuple[int, ...], list[OptimizerReport]] = {}
    for one in sorted(reports, key=lambda one: one.rank):
        groups.setdefault(one.group, []).append(one)
    verdicts = [_judge_group(group, over) for group in groups.values() if len(group) > 1]
    if not verdicts:
        return not_checked("each rank has a process group of its own")
    worst = max(verdicts, key=lambda one: SEVERITY.index(one.result))
    if worst.result in (WeightResult.EQUAL, WeightResult.COPIES) and len(groups) > 1:
        return not_checked(f"equal within each of {len(groups)} process groups")
    return worst


def _judge_group(reports: Sequence[OptimizerReport], over: bool) -> WeightsVerdict:
    common = set.intersection(*(set(one.traces) for one in reports))
    compared = sorted(step for step in common if step >= FIRST_COMPARED)
    equal = [step for step in compared if _alike(one.traces[step] for one in reports)]
    if not over:
        if equal or LAST_TRACED not in compared:
            return OPEN
        return _difference(reports, LAST_TRACED, over=False)
    at_end = _at_end(reports)
    if at_end and _alike(tuple(one.checks[END].checksums) for one in reports):
        return _equal(reports, END)
    if not equal:
        steps = [END] if at_end and not _changed(reports) else []
        steps += [step for step in (LAST_TRACED, FIRST_COMPARED) if step in compared]
        known = [step for step in steps if all(step in one.checks for one in reports)]
        return _difference(reports, known[0], over) if known else _unknown(reports)
    if at_end and not _changed(reports):
        if len(equal) < len(compared):
            return not_checked(
                f"the ranks' weights were equal before step {equal[-1]}, and differ at the end: "
                "they are averaged now and then (local SGD)"
            )
        return _difference(reports, END, over)
    return _equal(reports, equal[-1])


def _alike(values: Any) -> bool:
    return len(set(values)) == 1


def _at_end(reports: Sequence[OptimizerReport]) -> bool:
    """Whether all ranks have reported their last weights, after the same number of steps."""
    ended = all(one.steps is not None and END in one.checks for one in reports)
    return ended and _alike(one.steps for one in reports)


def _changed(reports: Sequence[OptimizerReport]) -> bool:
    """Whether weights were loaded after the last step, as a best checkpoint's on rank 0."""
    return any(one.changed for one in reports)


def _unknown(reports: Sequence[OptimizerReport]) -> WeightsVerdict:
    counts = sorted({one.steps for one in reports if one.steps is not None})
    if len(counts) > 1:
        return not_checked(f"the ranks made {counts[0]} to {counts[-1]} steps")
    return not_checked("not all ranks reported their last weights")


def _equal(reports: Sequence[OptimizerReport], step: int) -> WeightsVerdict:
    losses = {tuple(one.losses) for one in reports}
    first = next(iter(losses))
    if len(losses) == 1 and len(first) == 3 and len(set(first)) > 1:
        text = f"the first three losses are equal on all ranks too: {len(reports)} copies of one"
        return WeightsVerdict(WeightResult.COPIES, f"{text} training")
    return WeightsVerdict(WeightResult.EQUAL, _after(reports, step))


def _after(reports: Sequence[OptimizerReport], step: int) -> str:
    return f"after {reports[0].steps if step == END else step - 1} steps"


def _difference(reports: Sequence[OptimizerReport], step: int, over: bool) -> WeightsVerdict:
    """Return DIFFERENT, unless the weights differ by rounding only, or may differ."""
    if not all(step in one.checks for one in reports):
        return OPEN
    gaps = differences([one.checks[step] for one in reports])
    same = _alike(one.processor for one in reports)
    tolerance = ROUNDING if same else ROUNDING_OF_MIXED_PROCESSORS
    worst = max(gaps, default=0.0)
    if worst <= tolerance:
        text = f"the ranks' weights differ by rounding only ({worst:.0e})"
        return not_checked(text) if over else OPEN
    if reasons := [one.may_differ for one in reports if one.may_differ]:
        return not_checked(reasons[0]) if over else OPEN
    place = next(place for place, one in enumerate(gaps) if one > tolerance)
    names = next((one.names for one in reports if one.names), ())
    name = names[place] if place < len(names) else f"parameter {place}"
    return WeightsVerdict(
        WeightResult.DIFFERENT,
        f"the ranks train different models: {_after(reports, step)} {name} differs",
        name,
        partly=min(gaps) <= tolerance,
        from_start=not _alike(one.traces.get(1) for one in reports),
    )


def differences(checks: Sequence[WeightSums]) -> list[float]:
    """Return how much each parameter differs, relative to the mean of its values."""
    gaps = []
    for place, sums in enumerate(zip(*(one.checksums for one in checks))):
        values = [one.values[place] if place < len(one.values) else () for one in checks]
        gaps.append(0.0 if _alike(sums) else _relative(values))
    return gaps


def _relative(values: Sequence[Sequence[float]]) -> float:
    first = values[0]
    means = [sum(map(abs, one)) / max(len(one), 1) for one in values]
    gaps = [abs(a - b) for other in values[1:] for a, b in zip(first, other)]
    gap, mean = max(gaps, default=0.0), max(means)
    if not math.isfinite(gap) or not math.isfinite(mean):
        return math.inf  # one rank's loss has become NaN, the other's has not
    return gap / mean if gap else 0.0
