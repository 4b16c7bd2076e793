"""Compares runs: their settings, what they used and what they reached, the best first.

Settings are told apart from measurements: two runs are the same experiment when their settings are.
Pure but for reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import job_record
from ..core.errors import SystemFault, UsageError, nearest
from ..core.job_record import Job, JobPaths, Status
from ..core.plan_record import PlanRecord
from ..explain import read_facts
from ..images.facts import digest_cache
from ..jobs import resource_use
from ..jobs.metrics_tail import RATE

Facts = dict[str, Any]
# Of result.json; beside them `UNIT_per_s`, whatever the trainer counts.
MEASURED = (
    "accuracy",
    "loss",
    "train_loss",
    "epochs",
    "steps",
    "first_epoch_seconds",
    "steady_epoch_seconds",
    "startup_seconds",
)
FIRST = ("accuracy", "loss")  # what decides, where results have it; else the first rate
# Of other names those with such a part are the better the less they are.
LESS = ("loss", "error", "perplexity", "seconds", "time")
NO_METRIC = ("seconds", "time")  # ends of names that say how a run went, not what it reached
OBJECTS = ("versions", "arguments")  # of result.json: settings by their names
SETTINGS = ("trainer", "world_size", "hosts", "device", "threads", "controller")


@dataclass(frozen=True)
class Compared:
    """One run: its settings, what was measured, and what it used of its nodes, each by name.

    Of a run without a `result` only what was asked for is known; `odd` says why one was left out.
    """

    run: str
    settings: Facts
    measured: Facts
    used: Facts = field(default_factory=dict)
    result: bool = True
    odd: str = ""

    @property
    def numbers(self) -> dict[str, Any]:
        return {**self.measured, **self.used}


@dataclass(frozen=True)
class Ranking:
    """How results are compared: by `metric`, None where they have no number in common to go by.

    `order` has their places, the best first; `metrics` are the names to show, that one first.
    """

    metric: str | None
    order: Sequence[int]
    metrics: Sequence[str]


@dataclass(frozen=True)
class Comparison:
    """Runs as they were named, the same with the best first, and the settings that differ."""

    runs: Sequence[Compared]
    ordered: Sequence[Compared]
    metric: str | None
    differing: Sequence[str]


def compare(compared: Sequence[Compared], sort: str | None) -> Comparison:
    """Compare runs; raises UsageError for a `sort` that none of them has."""
    ranking = rank([each.measured for each in compared], sort)
    ordered = [compared[place] for place in ranking.order]
    return Comparison(compared, ordered, ranking.metric, differing(compared))


def of_run(paths: JobPaths, job: Job, status: Status) -> Compared:
    """Read what a run's folder tells; a run that has not ended lacks what it will reach."""
    result, odd = _result(paths)
    plan = read_facts.plan(paths, job)
    settings = {
        "image": job.image,
        "image digest": _digest(job).partition(":")[2][:12],
        **_decided(plan),
        **{name: result[name] for name in SETTINGS if name in result},
        **{f"version of {name}": text for name, text in (result.get("versions") or {}).items()},
        **_arguments(paths, job, plan, result),
    }
    rates = {name: value for name, value in result.items() if name.endswith(RATE)}
    reached = {name: result[name] for name in MEASURED if name in result}
    elapsed = None if status.elapsed is None else float(status.elapsed)
    measured = {"state": status.state.value, **rates, **reached, "elapsed_seconds": elapsed}
    used = resource_use.measured(resource_use.of_run(paths))
    return Compared(paths.root.name, _known(settings), _known(measured), used, bool(result), odd)


def _decided(plan: PlanRecord) -> Facts:
    """Return decisions; the others follow from these, from the image, or are in the result."""
    if plan.launching is None:
        return {}
    return {
        "scheduler": plan.launching.scheduler.value,
        "runtime": plan.launching.runtime.value,
        "launcher": plan.launching.launcher.value,
        "mpi": plan.mpi,
        "data-plane": plan.gpus.data_plane.value,
        "cpus-per-task": plan.resources.cpus_per_task if plan.resources else None,
    }


def _result(paths: JobPaths) -> tuple[Facts, str]:
    """Return a run's result, {} where none can be compared, and why an odd one is left out."""
    result, odd = job_record.result(paths)
    for name in OBJECTS:
        if result and not isinstance(result.get(name), (dict, type(None))):
            return {}, f"cannot compare {paths.result}: {name} is not a JSON object"
    return result or {}, odd


def _digest(job: Job) -> str:
    """Return what was written down, else that of a file that has not changed since; or "".

    A run is compared by all else where its image is not to be read any more.
    """
    path = Path(job.image)
    if job.digest or not path.is_file() or path.stat().st_ctime > job.submitted:
        return job.digest
    try:
        return digest_cache.digest(path)
    except SystemFault:
        return ""


def _arguments(paths: JobPaths, job: Job, plan: PlanRecord, result: Mapping[str, Any]) -> Facts:
    """Return the trainer's arguments; of a run without a result, those of its command.

    The run's own folder is among them, and says nothing.
    """
    given = result.get("arguments")
    if given is not None:
        options = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
        return {name: value for name, value in options.items() if value != str(paths.root)}
    typed = {"arguments as typed": " ".join(plan.arguments)} if plan.arguments else {}
    varied = {f"--{name.lstrip('-')}": value for name, value in job.varied.items()}
    return {**typed, **varied}


def _known(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value not in ("", None)}


def names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of facts that any run has, in the order of first mention."""
    return list(dict.fromkeys(name for facts in runs for name in facts))


def differing(runs: Sequence[Compared]) -> list[str]:
    """Return the settings in which runs differ; what is not known of a run differs from nothing."""
    differing = []
    for name in names([each.settings for each in runs]):
        known = [each.settings.get(name) for each in runs if name in each.settings or each.result]
        if any(value != known[0] for value in known):
            differing.append(name)
    return differing


def change(value: Any, first: Any) -> str:
    """Return how far a measurement is from the first run's: `+12 %`; empty if that says nothing.

    Less than half a per cent says nothing, nor do counts, which are whole numbers.
    """
    if not (isinstance(value, float) and isinstance(first, float) and first):
        return ""
    share = 100 * (value - first) / abs(first)
    return "" if abs(share) < 0.5 else f"{share:+.0f} %"


def metrics(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names by which results can be compared, the one that decides first.

    They are accuracy and loss, then rates, then what else a trainer writes as a fraction.
    """
    fractions = dict.fromkeys(
        name for result in results for name, value in result.items() if isinstance(value, float)
    )
    whole = {name for result in results for name in result if is_number(result[name])}
    first = [name for name in FIRST if name in whole]
    rates = [name for name in dict.fromkeys([*fractions, *sorted(whole)]) if name.endswith(RATE)]
    metrics = [name for name in fractions if not name.endswith(NO_METRIC)]
    return list(dict.fromkeys([*first, *rates, *metrics]))


def is_number(value: Any) -> bool:
    """Whether a value can be sorted by: a number that is one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def less_is_better(name: str) -> bool:
    """Whether the smaller of two such numbers is the better one."""
    return not name.endswith(RATE) and any(part in name.lower() for part in LESS)


def metric(results: Sequence[Mapping[str, Any]], requested: str | None) -> str | None:
    """Return what to sort by: what was asked, else what decides; None where there is nothing.

    Raises UsageError for a name that is no number of any result.
    """
    if requested is None:
        return next(iter(metrics(results)), None)
    known = {name for result in results for name, value in result.items() if is_number(value)}
    if requested not in known:
        raise UsageError(
            f"--sort {requested}: no run has such a number", nearest(requested, sorted(known))
        )
    return requested


def rank(results: Sequence[Mapping[str, Any]], sort: str | None) -> Ranking:
    """Rank results by the metric `sort`, by default what decides; raises as `metric`."""
    by = metric(results, sort)
    names = dict.fromkeys([*([by] if by else []), *metrics(results)])
    return Ranking(by, best_first(results, by), list(names))


def best_first(results: Sequence[Mapping[str, Any]], name: str | None) -> list[int]:
    """Return the places of results, the best first, those without the number at the end.

    Without a name they stay in their order.
    """

    def worth(place: int) -> float:
        value: Any = results[place].get(name or "")
        if not is_number(value):
            return math.inf
        return float(value if less_is_better(name or "") else -value)

    return sorted(range(len(results)), key=worth)
