"""Samples per second of torch_mnist in the image and in a plain environment on the same machine."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.state import CHECKOUT, USER

from . import cluster, plain
from .errors import BenchError
from .report import Part, Row, compared, row
from .rounds import interleaved

TITLE = "Training, torch_mnist: samples/s in the steady epochs"
ROUNDS = 5
EPOCHS = 25  # about 6 s; the first, which warms up, is not counted
NODE = "n1"
AIM = ">= 0.98"
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def training(ranks: int, python: str, output: str) -> list[str]:
    """The command, the same on both sides but for the interpreter."""
    start = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", python]
    return [*start, "-m", "recipes.torch_mnist", "--epochs", str(EPOCHS), "--output", output]


def in_image(ranks: int) -> float:
    """One run in the image, on a node of the cluster; samples/s."""
    folder = cluster.run(["mktemp", "-d", f"/scratch/{USER}/bench.XXXXXX"]).strip()
    container = ["apptainer", "exec", "--bind", folder, cluster.IMAGE]
    try:
        command = [*container, *training(ranks, "python", folder)]
        cluster.run(["env", "OMP_NUM_THREADS=1", *command], NODE)
        return samples_per_second(cluster.on_host(folder))
    finally:
        cluster.run(["rm", "-rf", folder])


def in_environment(environment: Path, ranks: int) -> float:
    """One run in the plain environment, on the host; samples/s. Raises BenchError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = {**kept, **ROOT_MAY, "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}
    with tempfile.TemporaryDirectory(dir=environment.parent) as folder:
        command = training(ranks, str(environment / "bin" / "python"), folder)
        run = functools.partial(subprocess.run, capture_output=True, text=True, cwd=CHECKOUT)
        done = run(command, env=variables)
        if done.returncode:
            raise BenchError(f"exit code {done.returncode} on the host:\n{done.stderr[-2000:]}")
        return samples_per_second(Path(folder))


def samples_per_second(folder: Path) -> float:
    """The median over the epochs of a run, without the first."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
    found: list[float] = [epoch["samples_per_s"] for epoch in epochs[1:]]
    return statistics.median(found)


def measure() -> Part:
    """Measure. Raises BenchError, and Skipped where there can be no plain environment."""
    cluster.require_image()
    environment = plain.environment(plain.image_plan())
    cases = {}
    for ranks in (1, 2):
        cases[f"image {ranks}"] = functools.partial(in_image, ranks)
        cases[f"plain {ranks}"] = functools.partial(in_environment, environment, ranks)
    found = interleaved(cases, ROUNDS)
    table = [*rows(1, found["image 1"], found["plain 1"])]
    table += rows(2, found["image 2"], found["plain 2"])
    return Part(TITLE, tuple(table), samples=found)


def rows(ranks: int, image: Sequence[float], environment: Sequence[float]) -> list[Row]:
    """The two lines for a number of ranks."""
    count = "1 rank" if ranks == 1 else f"{ranks} ranks"
    reference = f"plain environment, {count}"
    return [
        row(reference, environment, "samples/s"),
        compared(f"image, {count}", image, "samples/s", reference, environment, AIM),
    ]
