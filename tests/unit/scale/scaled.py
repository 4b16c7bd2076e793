"""Runs of scaling studies, made up: what is not given is as in any of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.scale.measure import Measured
from runners.scale.report import StudyReport, build
from runners.scale.study_request import Size, StudyRequest, StudyVariant

GLOO, MPI = (
    StudyVariant("gloo", (("controller", "gloo"),)),
    StudyVariant("mpi", (("controller", "mpi"),)),
)


def run(ranks: int, rate: float, repeat: int = 1, variant: str = "", **more: Any) -> Measured:
    """Return a run with one rank on each node, and five steady epochs."""
    values: dict[str, Any] = {
        "nodes": ranks, "variant": variant, "repeat": repeat, "ranks": ranks, "unit": "samples",
        "folder": f"{ranks}n-{variant}-r{repeat}", "rate": rate, "rates": (rate,) * 5, "epochs": 6,
        "epoch_seconds": 1000 / rate, "first_epoch_seconds": 2000 / rate,
        "training_seconds": 7000 / rate, "launch_seconds": 5.0, "job_seconds": 8 + 7000 / rate,
        "accuracy": 0.97, "hosts": tuple(f"n{i + 1}" for i in range(ranks)), "device": "cpu",
        "threads": 1, "controller": variant or "mpi", "versions": {"torch": "2.13.0"},
    }  # fmt: skip
    return Measured(**{**values, **more})


def question(sizes: Sequence[int] = (1, 2), repeats: int = 2, **more: Any) -> StudyRequest:
    """Return a study of torch_mnist over numbers of nodes."""
    asked = {"trainer": "torch_mnist", "args": ("--epochs", "6"), "variants": (GLOO, MPI), **more}
    return StudyRequest(sizes=tuple(Size(n) for n in sizes), repeats=repeats, **asked)


def report(**more: Any) -> StudyReport:
    """Return the report of two variants on 1, 2 and 4 ranks, three runs each."""
    rates = {"gloo": (100, 180, 300), "mpi": (100, 195, 380)}
    runs = [
        run(ranks, rate * (1 + 0.01 * repeat), repeat, variant)
        for variant, row in rates.items()
        for ranks, rate in zip((1, 2, 4), row)
        for repeat in (1, 2, 3)
    ]
    return build(question((1, 2, 4), 3), runs, more.pop("references", ()), **more)


def leave(
    paths: JobPaths, code: int | None, epochs: int = 3, state: str | None = None, **result: Any
) -> None:
    """Leave on disk what a run leaves, up to its record of the end where there is a `code`."""
    paths.root.mkdir(parents=True)
    if state is not None:
        Job("7", "torch_mnist", SchedulerName.SLURM, str(paths.log), 0.0, state).save(paths)
    lines = [
        {"event": "epoch", "epoch": n, "step": n * 9, "seconds": 2.0 if n == 1 else 0.5,
         "samples_per_s": 50.0 if n == 1 else 200.0}
        for n in range(1, epochs + 1)
    ]  # fmt: skip
    (paths.root / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = {"samples_per_s": 200.0, "world_size": 2, "hosts": ["n1", "n2"], **result}
    if code == 0:
        paths.result.write_text(json.dumps({**told, "first_step_unix_time": 1004.5}))
    if code is not None:
        paths.exit.write_text(json.dumps({"exit_code": code, "time": 1010, "began": 1000.0}))
