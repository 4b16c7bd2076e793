"""The trainers themselves, launched as a user does: torch_mnist with Horovod and with DDP."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from .. import cluster
from ..report import Part, Row, compared, row
from .cases import FOLDER

ROUNDS = 3
EPOCHS = 10  # the first one is told by itself
PLACES = {
    "one host": ["--scheduler", "local", "--ntasks", "2"],
    "two nodes": ["--nodes", "2", "--wait"],
}
WAYS = {  # the controller, the exchange
    "DDP": ("gloo", "ddp"),
    "Horovod, Gloo": ("gloo", "horovod"),
    "Horovod, MPI": ("mpi", "horovod"),
}
TRAINING = ("torch_mnist", "--", "--epochs", str(EPOCHS))
AIM = ">= 1"


def measure() -> list[Part]:
    """Measure in both places. Raises BenchError."""
    cluster.require_image()
    return [_place(name, words) for name, words in PLACES.items()]


def _place(name: str, where: list[str]) -> Part:
    always = ["--image", cluster.IMAGE, "--cpus-per-task", "1", *where]
    cases = {
        way: [*always, "--controller", controller, *TRAINING, "--exchange", exchange]
        for way, (controller, exchange) in WAYS.items()
    }
    words = ["--rounds", str(ROUNDS), "--folder", FOLDER, "--cases", json.dumps(cases)]
    found = cluster.login_program("training", *words)
    title = f"torch_mnist by Horovod and by DDP, 2 ranks on {name}, by runner launch"
    return Part(title, rows(found), found, notes(found))


def rows(found: dict[str, list[dict[str, Any]]]) -> tuple[Row, ...]:
    """Speed in the steady epochs, each way beside DDP."""
    speeds = {way: [result["samples_per_s"] for result in runs] for way, runs in found.items()}
    table = [row("DDP", speeds["DDP"], "samples/s")]
    for way in list(speeds)[1:]:
        table.append(compared(way, speeds[way], "samples/s", "DDP", speeds["DDP"], AIM))
    return tuple(table)


def notes(found: dict[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    """Tell the first epoch and the steady ones, in seconds."""
    lines = []
    for way, runs in found.items():
        first, steady = (
            median(result[f"{name}_epoch_seconds"] for result in runs)
            for name in ("first", "steady")
        )
        lines.append(f"{way}: first epoch {first:.2f} s, steady epochs {steady:.2f} s each")
    return tuple(lines)
