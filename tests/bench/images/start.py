"""How long starting takes: one rank, each form, warm and cold."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from tests.cluster.state import CHECKOUT

from .. import cluster, plain
from ..errors import BenchError, Skipped
from ..report import Part, Row, compared, row
from ..rounds import interleaved
from . import packing
from .forms import FOLDER, FORMS, PLAIN, STORED, Form
from .packing import Shelf

WARM_ROUNDS, COLD_ROUNDS = 3, 1
MODULES = ("torch", "tensorflow", "horovod.torch")
READ_ALL = ("torch", "tensorflow")  # the others read nothing else of note
TRUE = "true"
AIM = "<= 1.35"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
COLD_FORMS = tuple(form for form in FORMS if form != STORED)

Cases = dict[str, Callable[[], float]]


def command(what: str) -> list[str]:
    """`true`, or Python importing a module."""
    return ["true"] if what == TRUE else ["python", "-c", f"import {what}"]


@dataclass(frozen=True)
class Way:
    """How ranks are started: their number, and options of `login/together.py`."""

    count: int = 1
    options: tuple[str, ...] = ()


ALONE = Way()


def in_container(image: str, what: str, way: Way = ALONE) -> float:
    """Start in containers on a node; seconds until all have ended. Raises BenchError."""
    argv = ["apptainer", "exec", image, *command(what)]
    options = (f"--count={way.count}", *way.options)
    return seconds_of(cluster.login_program("together", *options, *argv), way.count)


def in_environment(environment: Path, what: str, way: Way = ALONE) -> float:
    """The same in the plain environment on the host."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = f"{environment / 'bin'}:{kept.get('PATH', os.defpath)}"
    variables = {**kept, "PATH": path, "PYTHONNOUSERSITE": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    program = [sys.executable, "-B", "-m", "tests.bench.login.together"]
    argv = [*program, f"--count={way.count}", *way.options, *command(what)]
    done = subprocess.run(argv, env=variables, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"exit code {done.returncode} on the host:\n{done.stderr[-2000:]}")
    return seconds_of(json.loads(done.stdout), way.count)


def seconds_of(found: Mapping[str, Any], count: int) -> float:
    """The time; BenchError when one of them failed."""
    if found["failed"]:
        raise BenchError(f"{len(found['failed'])} of {count} failed: {found['failed'][0]}")
    return float(found["seconds"])


def drop_caches() -> None:
    """Forget every file of this machine: data, folders and all. Raises Skipped."""
    if not os.access(DROP_CACHES, os.W_OK):
        raise Skipped("only root can empty the machine's page cache (drop_caches)")
    os.sync()
    DROP_CACHES.write_text("3")


def cold(case: Callable[[], float]) -> float:
    """A case after the caches were dropped. The way to the cluster is read again before."""
    drop_caches()
    cluster.run(["true"])
    return case()


def cases(found: Shelf, environment: Path, forms: Sequence[Form], what: str) -> Cases:
    """One command in each form."""
    every: Cases = {PLAIN: functools.partial(in_environment, environment, what)}
    every[FOLDER] = functools.partial(in_container, found.tree, what)
    for form in forms:
        every[form.name] = functools.partial(in_container, found.packed(form), what)
    return every


def measure_warm() -> list[Part]:
    """Everything that was read before is in memory. Raises BenchError, Skipped."""
    return _measure("warm", FORMS, WARM_ROUNDS)


def measure_cold() -> list[Part]:
    """Nothing is in memory. Raises BenchError, Skipped."""
    return _measure("cold", COLD_FORMS, COLD_ROUNDS)


def _measure(state: str, forms: tuple[Form, ...], rounds: int) -> list[Part]:
    found, environment = packing.shelf(), plain.environment(plain.image_plan())
    packing.require(found, forms)
    parts = []
    for what in (*MODULES, TRUE):
        todo = cases(found, environment, forms, what)
        if state == "cold":
            todo = {name: functools.partial(cold, case) for name, case in todo.items()}
        elif what in READ_ALL:
            interleaved(todo, 1)
        measured = interleaved(todo, rounds)
        parts.append(Part(f"{title(what)}, {state}", table(measured, what), dict(measured)))
    return parts


def title(what: str) -> str:
    """What people call the command."""
    return f"apptainer exec {TRUE}" if what == TRUE else f"import {what}"


def table(measured: dict[str, list[float]], what: str) -> tuple[Row, ...]:
    """A line for each form, against the plain environment where that says anything."""
    reference = FOLDER if what == TRUE else PLAIN
    aim = "" if what == TRUE else AIM
    values = {name: took for name, took in measured.items() if (what, name) != (TRUE, PLAIN)}
    return against(reference, values, aim)


def against(reference: str, measured: dict[str, list[float]], aim: str) -> tuple[Row, ...]:
    """A line for each case, compared with one of them."""
    return tuple(
        row(name, took, "s")
        if name == reference
        else compared(name, took, "s", reference, measured[reference], aim)
        for name, took in measured.items()
    )
