"""How long ranks take to meet, by their number: our rendezvous for Gloo beside MPI over PMIx."""

from __future__ import annotations

from statistics import median
from typing import Any

from tests.cluster.state import USER

from . import cluster
from .report import Part, Row, compared, row

TITLE = "How long ranks on two nodes take to meet, from the last one's begin to the last one's end"
ROUNDS = 3
RANKS = (2, 4, 8, 16, 32, 64, 96)
HOROVOD = (2, 4, 8, 16)  # more need more memory and minutes than two cores have
LIGHT = (("pmix", "MPI_Init over PMIx"), ("gloo", "our rendezvous, with Horovod's requests"))
HEAVY = (("horovod-mpi", "hvd.init(), MPI over PMIx"), ("horovod-gloo", "hvd.init(), Gloo"))

Jobs = dict[str, dict[str, list[dict[str, Any]]]]


def measure() -> Part:
    """Measure. Raises BenchError."""
    cluster.require_image()
    arguments = ["--image", cluster.IMAGE, "--folder", f"/scratch/{USER}", "--rounds", str(ROUNDS)]
    arguments += ["--ranks", *map(str, RANKS), "--horovod", *map(str, HOROVOD)]
    found: Jobs = cluster.login_program("rendezvous", *arguments)
    return Part(TITLE, rows(found), found, notes(found))


def rows(found: Jobs) -> tuple[Row, ...]:
    """PMIx and ours for each number of ranks, without and with a real Horovod around them."""
    table: list[Row] = []
    for (base, base_name), (kind, name) in (LIGHT, HEAVY):
        for ranks, jobs in found.items():
            if base in jobs and kind in jobs:
                reference = f"{base_name}, {ranks} ranks"
                first, other = ([job["seconds"] for job in jobs[case]] for case in (base, kind))
                table.append(row(reference, first, "s"))
                table.append(compared(f"{name}, {ranks} ranks", other, "s", reference, first, ""))
    return tuple(table)


def notes(found: Jobs) -> tuple[str, ...]:
    """What rank 0 served, and the requests that ended on the ranks' own hosts."""
    lines = []
    for ranks, jobs in found.items():
        frames, requests, cpu = (
            median(job[name] for job in jobs["gloo"]) for name in ("frames", "requests", "cpu")
        )
        lines.append(
            f"{ranks} ranks: rank 0 received {frames:.0f} frames ({frames / int(ranks):.1f} from "
            f"each rank) instead of {requests:.0f} requests; its parent took {cpu:.2f} s of CPU"
        )
    return tuple(lines)
