"""Measure how the image reaches the nodes: python -m tests.bench.distribution [--rounds N]

Read in place, sent by sbcast, or sent and unpacked, from a folder that is one slow server for all
nodes; each job begins with nothing of it in the nodes' memory. Prints a table and writes
build/bench-distribution.json. A cluster with four nodes must be up and the image built
(`make bench-distribution` sees to both). All nodes share this machine's CPUs: what many of them
unpack at once takes longer here than on machines of their own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from tests.cluster.state import CHECKOUT, USER

from . import cluster, data, report
from .errors import BenchError, Skipped
from .login import slow
from .report import Part, Row, compared, row
from .rounds import interleaved, quartiles

FOLDER = PurePosixPath(f"/scratch/{USER}")
PLACE, QUEUE = FOLDER / "bench-slow", FOLDER / "bench-slow.queue"
IMAGES, IMAGE = PurePosixPath(cluster.IMAGE).parent, PurePosixPath(cluster.IMAGE).name
WAIT, RATE = 0.001, 200e6  # seconds for each question, bytes per second for all nodes together
ROUNDS = 2
WAYS = {"in place": "none", "one mount": "mount", "sent": "node-local", "sent, unpacked": "unpack"}
TITLE = (
    f"From the job's start to the end of its first step: torch_mnist, the CPU image on a server "
    f"with {RATE / 1e6:.0f} MB/s for all nodes and {1000 * WAIT:.0f} ms for each question"
)
OUTPUT = CHECKOUT / "build" / "bench-distribution.json"
SERVE = """\
cd /tmp; fusermount3 -u {place} 2> /dev/null; mkdir -p {place}
setsid python3 /opt/kit/tests/bench/login/slow.py {words} > /dev/null 2>&1 < /dev/null &
for try in $(seq 200); do [ ! -e {place}/{image} ] || exit 0; sleep 0.05; done; exit 1
"""


@dataclass(frozen=True)
class Shape:
    """So many nodes, with so many ranks on each."""

    nodes: int
    ranks: int = 1

    def __str__(self) -> str:
        many = "" if self.nodes == 1 else "s"
        return f"{self.nodes} node{many}" + (f", {self.ranks} ranks" if self.ranks > 1 else "")


SHAPES = (Shape(1), Shape(1, 4), Shape(2), Shape(4))
Runs = dict[str, list[dict[str, float]]]


def measure(rounds: int) -> Part:
    """Measure. Raises BenchError; Skipped without mfusepy, which the bench's environment has."""
    cluster.require_image()
    modules = data.modules()
    there = set(cluster.run(["sinfo", "--noheader", "--Node", "--format=%N"]).split())
    shapes = [shape for shape in SHAPES if set(names(shape)) <= there]
    cases = {
        f"{way}, {shape}": partial(job, modules, shape, asked)
        for shape in shapes
        for way, asked in WAYS.items()
    }
    try:
        found = interleaved(cases, rounds)
    finally:
        for node in ("login", *names(max(shapes, key=lambda shape: shape.nodes))):
            cluster.run(["bash", "-c", f"fusermount3 -u {PLACE} 2> /dev/null; true"], node)
    return Part(TITLE, rows(found, shapes), dict(found), notes(found))


def names(shape: Shape) -> tuple[str, ...]:
    """The nodes that a job of this shape runs on, by the names of the cluster without a flavour."""
    return tuple(f"n{number + 1}" for number in range(shape.nodes))


def job(modules: str, shape: Shape, asked: str) -> dict[str, float]:
    """One job, from a server that nothing was asked of before; with the bytes that it sent."""
    words = [modules, IMAGES, PLACE, WAIT, RATE, QUEUE]
    queue = cluster.on_host(str(QUEUE))
    slow.begin(str(queue))
    queue.chmod(0o666)
    text = SERVE.format(place=PLACE, image=IMAGE, words=" ".join(map(str, words)))
    for node in ("login", *names(shape)):
        cluster.run(["bash", "-c", text], node)
    options = ["--image", str(PLACE / IMAGE), "--controller", "gloo", "--stage-image", asked]
    options += ["--nodelist", ",".join(names(shape)), "--nodes", str(shape.nodes)]
    options += ["--ntasks-per-node", str(shape.ranks)]
    found = cluster.login_program("distribution", "--folder", str(FOLDER), "--", *options)
    return {**found, "bytes": float(slow.sent(str(queue)))}


def rows(found: Runs, shapes: list[Shape]) -> tuple[Row, ...]:
    """Each way to the one that reads in place, for each shape."""
    table: list[Row] = []
    for shape in shapes:
        reference, *others = (f"{way}, {shape}" for way in WAYS)
        base = [run["ready"] for run in found[reference]]
        table.append(row(reference, base, "s"))
        for name in others:
            values = [run["ready"] for run in found[name]]
            table.append(compared(name, values, "s", reference, base, ""))
    return tuple(table)


def notes(found: Runs) -> tuple[str, ...]:
    """What the server sent in each case: the median, in MB."""
    sent = {name: quartiles([run["bytes"] for run in runs])[1] for name, runs in found.items()}
    told = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in sent.items())
    return (f"MB that the server sent: {told}",)


def attempt(rounds: int) -> Part:
    """The table, or why there is none."""
    try:
        return measure(rounds)
    except Skipped as reason:
        return Part(TITLE, problem=f"skipped: {reason}")
    except BenchError as error:
        return Part(TITLE, problem=f"failed: {error}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.distribution", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    began, before = time.monotonic(), os.getloadavg()[0]
    part = attempt(rounds)
    load, took = (before, os.getloadavg()[0]), time.monotonic() - began
    report.write(OUTPUT, [part], cpus=os.cpu_count(), load=load, seconds=took)
    print(report.text([part], load))
    print(f"\n{took:.0f} s in all; every sample: {OUTPUT.relative_to(CHECKOUT)}")
    return 1 if part.problem.startswith("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
