"""What runs were asked, what they used and what they reached, side by side. Pure but for reading.

Settings are told apart from measurements: two runs are the same experiment when their settings are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import files, plan_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, Status
from ..images import digest_cache

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
RATE = "_per_s"
SETTINGS = ("trainer", "world_size", "hosts", "device", "threads", "controller")
# Of the plan; the others follow from these, from the image, or are in the result.
CHOSEN = ("scheduler", "runtime", "launcher", "mpi", "data-plane", "cpus-per-task")


@dataclass(frozen=True)
class Compared:
    """One run: its settings, and what was measured, each by name.

    Of a run without a `result` only what was asked for is known.
    """

    run: str
    settings: Facts
    measured: Facts
    result: bool = True


def of_run(paths: JobPaths, job: Job, status: Status) -> Compared:
    """Read what a run's folder tells; a run that has not ended lacks what it will reach."""
    result = files.read_json(paths.result) or {}
    chosen = plan_record.read(paths)
    settings = {
        "image": job.image,
        "image digest": _digest(job).partition(":")[2][:12],
        **{name: chosen[name] for name in CHOSEN if name in chosen},
        **{name: result[name] for name in SETTINGS if name in result},
        **{f"version of {name}": text for name, text in result.get("versions", {}).items()},
        **_arguments(paths, job, result),
    }
    rates = {name: value for name, value in result.items() if name.endswith(RATE)}
    reached = {name: result[name] for name in MEASURED if name in result}
    elapsed = None if status.elapsed is None else float(status.elapsed)
    measured = {"state": status.state.value, **rates, **reached, "elapsed_seconds": elapsed}
    return Compared(paths.root.name, _told(settings), _told(measured), bool(result))


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


def _arguments(paths: JobPaths, job: Job, result: Mapping[str, Any]) -> Facts:
    """Return the trainer's arguments; of a run without a result, those that were typed.

    The run's own folder is among them, and says nothing.
    """
    given = result.get("arguments")
    if given is not None:
        options = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
        return {name: value for name, value in options.items() if value != str(paths.root)}
    typed = job.typed.args
    varied = {f"--{name.lstrip('-')}": value for name, value in job.varied.items()}
    return {**({"arguments as typed": " ".join(typed)} if typed else {}), **varied}


def _told(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value not in ("", None)}


def rows(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return, for each name that any of the runs has, the values of all of them."""
    names = dict.fromkeys(name for facts in runs for name in facts)
    return {name: [facts.get(name) for facts in runs] for name in names}


def differing(runs: Sequence[Compared]) -> list[str]:
    """Return the settings in which runs differ; what is not known of a run differs from nothing."""
    found = []
    for name, values in rows([each.settings for each in runs]).items():
        known = [v for v, each in zip(values, runs) if v is not None or each.result]
        if any(value != known[0] for value in known):
            found.append(name)
    return found


def change(value: Any, first: Any) -> str:
    """Return how far a measurement is from the first run's: `+12 %`; empty if that says nothing.

    Less than half a per cent says nothing, nor do counts, which are whole numbers.
    """
    if not (isinstance(value, float) and isinstance(first, float) and first):
        return ""
    share = 100 * (value - first) / abs(first)
    return "" if abs(share) < 0.5 else f"{share:+.0f} %"
