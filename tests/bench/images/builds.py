"""How long building takes: from nothing, after an edit of a trainer, after a change of a lock."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from containers.toolbox import CACHE, KIT
from tests.cluster.state import CHECKOUT

from .. import cluster, plain
from ..errors import BenchError, Skipped
from ..report import Part, Row, row
from .packing import AS_ROOT, ROOT

# A line of `runner build` when it does not write to a terminal.
PHASE = re.compile(r"(?:\[\d+/\d+\] )?(?P<name>.+): (?P<seconds>\d+) s")
LEFT_OUT = (".git", "build", "__pycache__", "*.egg-info", ".*_cache")
TRAINER = "recipes/torch_mnist.py"
EDIT_AIM, COLD_AIM = "<= 20", "<= 600"
BASE = "base"


def phases(log: str) -> dict[str, float]:
    """The phases of a build by name, in seconds; those that had nothing to do have no time."""
    found = (PHASE.fullmatch(line.strip()) for line in log.splitlines())
    return {match["name"]: float(match["seconds"]) for match in found if match}


def run(command: Sequence[str], folder: Path) -> tuple[str, float]:
    """What a build prints, and its seconds. Raises BenchError."""
    began = time.perf_counter()
    pipe, same = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, cwd=folder, text=True, check=False, stdout=pipe, stderr=same)
    if done.returncode:
        raise BenchError(f"exit code {done.returncode} from a build:\n{done.stdout[-2000:]}")
    return done.stdout, time.perf_counter() - began


def measure_edit() -> list[Part]:
    """Build from a copy of the checkout in which a trainer differs. Raises BenchError, Skipped."""
    if not plain.image_plan().environment.exists():
        raise Skipped("the environment of this image is not built: make build-cpu")
    output = f"{ROOT}/edited.sif"
    cluster.run(["mkdir", "-p", ROOT])
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name, "kit")
        shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        with (copy / TRAINER).open("a") as trainer:
            trainer.write("\n# Edited.\n")
        build = [sys.executable, "-B", "-m", "runners", "build", "cpu", "--output", output]
        log, seconds = run(build, copy)
    cluster.run(["rm", "-f", output])
    rows = (row("runner build cpu", [seconds], "s"), *rows_of(phases(log)))
    return [Part("After an edit of a trainer", aimed(rows, EDIT_AIM), {"log": log})]


def measure_cold() -> list[Part]:
    """Build with nothing there but the wheels, ten minutes. Raises BenchError."""
    plan, folder = plain.image_plan(), f"{ROOT}/cold"
    if not plan.wheels.is_dir():
        raise Skipped(f"the wheels are not in {plan.places.wheels}: make build-cpu")
    work = f"{folder}/horovod-runner"
    cluster.run(["mkdir", "-p", work])
    cluster.run(["ln", "-sfn", str(CACHE / "wheels"), f"{work}/wheels"])
    toolbox = [sys.executable, "-m", "tests.cluster", "toolbox"]
    bind = ["--bind", f"{plan.places.wheels}:{CACHE / 'wheels'}"]
    settings = [f"RUNNER_SCRATCH={folder}", "PYTHONDONTWRITEBYTECODE=1"]
    build = ["/opt/runner/bin/python", "-m", "runners", "build", "cpu", "--base", "debian"]
    try:
        log, seconds = run(
            [*toolbox, *bind, "--", "env", "-C", str(KIT), *settings, *build], CHECKOUT
        )
    finally:
        cluster.run([*AS_ROOT, "rm", "-rf", folder])
    took = phases(log)
    rows = (row("runner build cpu", [seconds], "s"), *rows_of(took))
    changed = row("runner build cpu", [after_lock(took)], "s")
    return [
        Part("Cold: from the locked wheels", aimed(rows, COLD_AIM), {"log": log}),
        Part(
            "After a change of a lock",
            (changed,),
            notes=("The same phases of the cold build, without those of the bases.",),
        ),
    ]


def rows_of(took: Mapping[str, float]) -> list[Row]:
    """A line for each phase."""
    return [row(f"  {name}", [seconds], "s") for name, seconds in took.items()]


def aimed(rows: Sequence[Row], aim: str) -> tuple[Row, ...]:
    """The rows with the aim on the first, which is the whole."""
    first = rows[0]
    return (Row(first.what, first.median, first.unit, first.runs, aim=aim), *rows[1:])


def after_lock(took: Mapping[str, float]) -> float:
    """What a changed lock repeats: all but the bases, which hold no wheel; seconds."""
    return sum(seconds for name, seconds in took.items() if not name.startswith(BASE))
