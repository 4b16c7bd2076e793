"""Compares runs: their settings, what they used and what they reached, the best first.

Settings are told apart from measurements: two runs are the same experiment when their settings are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..contract.enums import Controller
from ..core import job_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, Status
from ..core.plan_record import PlanRecord
from ..core.progress import Listener
from ..explain import read_facts
from ..images.facts import digest_cache
from ..jobs import job_status
from ..jobs.find_run import Runs
from ..jobs.metrics_tail import RATE
from ..monitoring import resource_use
from .ranking import names, rank

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
TIMES = 10  # from which on a measurement is so many times another
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
class Comparison:
    """Runs as they were named, the same with the best first, and the settings that differ."""

    runs: Sequence[Compared]
    ordered: Sequence[Compared]
    metric: str | None
    differing: Sequence[str]

    @property
    def best(self) -> Compared | None:
        return self.ordered[0] if self.metric else None

    @property
    def settings(self) -> list[str]:
        return names([run.settings for run in self.runs])

    @property
    def numbers(self) -> list[str]:
        return names([run.numbers for run in self.runs])

    @property
    def facts(self) -> Facts:
        """The comparison for programs, its runs as they were named."""
        fields = ("run", "settings", "measured", "used")
        return {
            "runs": [{name: getattr(run, name) for name in fields} for run in self.runs],
            "differ": self.differing,
            "metric": self.metric,
            "best": self.best.run if self.best else None,
        }


def compare(compared: Sequence[Compared], sort: str | None) -> Comparison:
    """Compare runs; raises UsageError for a `sort` that none of them has."""
    ranking = rank([run.measured for run in compared], sort)
    ordered = [compared[place] for place in ranking.order]
    return Comparison(compared, ordered, ranking.metric, differing(compared))


def of_runs(runs: Runs, listener: Listener) -> list[Compared]:
    """Read runs, as they were last known to stand; `listener` is told where that may be old."""
    statuses = job_status.last_known(runs, listener)
    return [of_run(*run, status) for run, status in zip(runs, statuses)]


def of_run(paths: JobPaths, job: Job, status: Status) -> Compared:
    """Read what a run's folder tells; a run that has not ended lacks what it will reach."""
    result, odd = _result(paths)
    plan = read_facts.plan(paths, job)
    settings = {
        "image": job.image,
        "image digest": _digest(job).partition(":")[2][:12],
        **_decided(plan, result),
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


def _decided(plan: PlanRecord, result: Mapping[str, Any]) -> Facts:
    """Return decisions; the others follow from these, from the image, or are in the result.

    Which PMI srun offered matters to ranks of MPI alone.
    """
    if plan.launching is None:
        return {}
    controller = result.get("controller", plan.controller)
    return {
        "scheduler": plan.launching.scheduler.value,
        "runtime": plan.launching.runtime.value,
        "launcher": plan.launching.launcher.value,
        "mpi": plan.mpi if controller == Controller.MPI else None,
        "gradient-transport": plan.gpus.data_plane.value,
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


def differing(runs: Sequence[Compared]) -> list[str]:
    """Return the settings in which runs differ; what is not known of a run differs from nothing."""
    differing = []
    for name in names([run.settings for run in runs]):
        known = [run.settings.get(name) for run in runs if name in run.settings or run.result]
        if any(value != known[0] for value in known):
            differing.append(name)
    return differing


def change(name: str, value: Any, best: Any) -> str:
    """Return how far a measurement is from the best run's: `+12 %`; empty if that says nothing.

    A share, such as an accuracy, is so many points away, and what is ten times as much so many
    times. Less than half a per cent or a tenth of a point says nothing, nor do counts, which are
    whole numbers.
    """
    if not (isinstance(value, float) and isinstance(best, float)):
        return ""
    if hundred := _is_share(name, value, best):
        points = hundred * (value - best)
        return "" if abs(points) < 0.05 else f"{points:+.1f} points"
    if not best:
        return ""
    if value / best >= TIMES:
        return f"{value / best:,.0f} times"
    share = 100 * (value - best) / abs(best)
    return "" if abs(share) < 0.5 or abs(share) >= 100 * TIMES else f"{share:+.0f} %"


def _is_share(name: str, *values: float) -> int:
    """Return 100 for shares of one, 1 for those of a hundred, 0 for other measurements."""
    if name.endswith("_percent"):
        return 1
    return 100 if "accuracy" in name and all(0 <= value <= 1 for value in values) else 0
