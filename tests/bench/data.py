"""What small files cost on a shared file system, and what one squashfs file of them costs.

The shared file system is a folder behind FUSE in which each lookup, open and read waits: only the
waits are like a real one's, which is why ratios count.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from statistics import median
from typing import Any

from tests.cluster.state import USER

from . import cluster
from .errors import Skipped
from .report import Part, Row, compared, row

SAMPLES = 16_667  # and a fifth to test with: 20,000 files
ROUNDS = 3
READERS = 4  # threads of one process, as a loader's workers
WAIT = 0.001  # seconds: what a round trip to a metadata server takes on a good day
TITLE = f"20,000 small files and one squashfs file of them, {1000 * WAIT:.0f} ms for each question"
FOLDER = f"/scratch/{USER}"

Runs = dict[str, list[dict[str, Any]]]


def measure() -> Part:
    """Measure. Raises BenchError; Skipped without mfusepy, which the bench's environment has."""
    cluster.require_image()
    found_modules = modules()
    arguments = ["--image", cluster.IMAGE, "--folder", FOLDER, "--modules", found_modules]
    for name, value in (("samples", SAMPLES), ("rounds", ROUNDS), ("readers", READERS)):
        arguments += [f"--{name}", str(value)]
    found: Runs = cluster.login_program("data", *arguments, "--wait", str(WAIT))
    return Part(TITLE, rows(found), found, notes(found))


def modules() -> str:
    """Bring mfusepy, one file, to where the login node sees it; return that folder."""
    spec = importlib.util.find_spec("mfusepy")
    if spec is None or spec.origin is None:
        raise Skipped("mfusepy is not in this environment: make bench installs it")
    folder = f"{FOLDER}/bench-modules"
    cluster.run(["mkdir", "-p", folder])
    shutil.copy(spec.origin, cluster.on_host(folder) / Path(spec.origin).name)
    return folder


def parts(run: dict[str, Any]) -> dict[str, float]:
    """The seconds of one run by what they were for."""
    return {"listing": run["list"], "epoch 1": run["epochs"][0], "epoch 2": run["epochs"][1]}


def rows(found: Runs) -> tuple[Row, ...]:
    """Both epochs, and the listing before them, of the folder and of the file."""
    table: list[Row] = []
    for where, words in (("slow", "shared"), ("near", "own disk")):
        folder = [parts(run) for run in found[f"{where} small"]]
        packed = [parts(run) for run in found[f"{where} small.sqsh"]]
        for part in folder[0]:
            reference = f"{part}, folder, {words}"
            base, ours = ([run[part] for run in runs] for runs in (folder, packed))
            table.append(row(reference, base, "s"))
            table.append(compared(f"{part}, squashfs, {words}", ours, "s", reference, base, ""))
    return tuple(table)


def notes(found: Runs) -> tuple[str, ...]:
    """Files opened per second, by case: the median of its second epochs."""
    said = []
    for name, runs in found.items():
        rate = median(run["files"] / run["epochs"][1] for run in runs)
        form = "squashfs" if name.endswith(".sqsh") else "folder"
        said.append(f"{form} {'shared' if name.startswith('slow') else 'on own disk'} {rate:.0f}")
    return ("files opened per second in epoch 2: " + ", ".join(said),)
