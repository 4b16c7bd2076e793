"""The step loop: ways to exchange gradients, and what each setting of Horovod's does to them."""

from __future__ import annotations

import json
from statistics import median

from .. import cluster
from ..report import Part, Row, compared, row
from ..rounds import quartiles, ratios
from .cases import CONTROLLERS, FOLDER, MPI, Case

AIM = ">= 1"
FUSION, CYCLE = "HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME"


def _case(backend: str, controller: str, *options: str, to: str = "DDP", **env: str) -> Case:
    """Return a case with what `runner launch` sets, and `env` beside it or instead of it."""
    return Case(backend, controller, options, {**CONTROLLERS[controller], **env}, to)


WAYS = {
    "DDP": _case("ddp", "gloo", to=""),
    "Horovod, Gloo": _case("horovod", "gloo"),
    "Horovod, MPI": _case("horovod", "mpi"),
}
APART = {"Ranks that exchange nothing": _case("apart", "gloo")}
BOTH = {
    "MPI, without giving way while waiting": Case("horovod", "mpi", (), MPI, "Horovod, MPI"),
    "Gloo, each rank bound to a core": _case("horovod", "gloo", "pin=1", to="Horovod, Gloo"),
    "Gloo, 4 batches per allreduce": _case("horovod", "gloo", "passes=4", to="Horovod, Gloo"),
}
LATENCY = {
    "Gloo, 2 threads a rank": _case(
        "horovod", "gloo", "threads=2", to="Horovod, Gloo", OMP_NUM_THREADS="2"
    ),
    "Gloo, cycle time 1 ms": _case("horovod", "gloo", to="Horovod, Gloo", **{CYCLE: "1"}),
    "Gloo, cycle time 50 ms": _case("horovod", "gloo", to="Horovod, Gloo", **{CYCLE: "50"}),
}
BANDWIDTH = {
    "Gloo, fusion threshold 1 MB": _case(
        "horovod", "gloo", to="Horovod, Gloo", **{FUSION: str(1 << 20)}
    ),
    "Gloo, no fusion": _case("horovod", "gloo", to="Horovod, Gloo", **{FUSION: "0"}),
    "Gloo, fp16 allreduce": _case("horovod", "gloo", "exchange=fp16", to="Horovod, Gloo"),
    "Gloo, bf16 allreduce": _case("horovod", "gloo", "exchange=bf16", to="Horovod, Gloo"),
}
TENSORFLOW = {
    "TensorFlow without hvd.init()": Case("alone", "none", (), {"OMP_NUM_THREADS": "2"}, ""),
    **{
        f"hvd.init() by runner, {name}": Case(
            "tensorflow",
            name.lower(),
            (),
            {**CONTROLLERS[name.lower()], "OMP_NUM_THREADS": "2"},
            "TensorFlow without hvd.init()",
        )
        for name in ("Gloo", "MPI")
    },
    "hvd.init() by mpirun as it is": Case(
        "tensorflow", "careless", (), {"OMP_NUM_THREADS": "2"}, "TensorFlow without hvd.init()"
    ),
}
# Title, cases, ranks, steps in a turn, seconds of turns.
GROUPS: dict[str, tuple[str, dict[str, Case], int, int, int]] = {
    "small": (
        "Steps of torch_mnist's network (15,000 weights, batches of 32), 2 ranks on one host",
        {**WAYS, **APART, **BOTH, **LATENCY},
        2,
        12,
        40,
    ),
    "large": (
        "Steps of torch_lm's network (3.2 million weights, 64 tokens), 2 ranks on one host",
        {**WAYS, **APART, **BOTH, **BANDWIDTH},
        2,
        3,
        50,
    ),
    "tensorflow": (
        "Steps of a convolution in TensorFlow, 1 rank with 2 threads, nothing exchanged",
        TENSORFLOW,
        1,
        4,
        15,
    ),
}


def measure(group: str) -> Part:
    """Measure one group. Raises BenchError."""
    cluster.require_image()
    title, cases, ranks, steps, seconds = GROUPS[group]
    wanted = {name: case.request(group, ranks, steps) for name, case in cases.items()}
    words = ["--seconds", str(seconds), "--folder", FOLDER, "--cases", json.dumps(wanted)]
    found = cluster.login_program("turns", *words)
    return Part(title, rows(cases, found), found, notes(found))


def rows(cases: dict[str, Case], found: dict[str, list[list[float]]]) -> tuple[Row, ...]:
    """Batches per second; a case with several batches a step counts them all."""
    speeds = {
        name: [batches(cases[name]) / seconds for seconds, *_ in turns]
        for name, turns in found.items()
    }
    table = []
    for name, case in cases.items():
        if not case.to:
            table.append(row(name, speeds[name], "batches/s"))
            continue
        aim = AIM if name.startswith(("Horovod", "hvd.init() by runner")) else ""
        to = case.to
        table.append(compared(name, speeds[name], "batches/s", to, speeds[to], aim))
    return tuple(table)


def batches(case: Case) -> int:
    """Return how many batches a rank learns from in one step."""
    return int(dict(option.split("=") for option in case.options).get("passes", "1"))


def notes(found: dict[str, list[list[float]]]) -> tuple[str, ...]:
    """Tell the CPU time of a step, which other programs change little, and where CPUs are lost."""
    cost = [f"{name} {1000 * median(t[1] for t in turns):.1f}" for name, turns in found.items()]
    most = max(turns[0][2] for turns in found.values())
    few = [f"{name} ({t[0][2]:.0f})" for name, t in found.items() if t[0][2] < most]
    told = (f"CPU milliseconds of a rank for each step: {', '.join(cost)}.", *_reached(found))
    return (*told, f"On fewer than {most:.0f} CPUs: {', '.join(few)}.") if few else told


def _reached(found: dict[str, list[list[float]]]) -> tuple[str, ...]:
    """Tell how near each way comes to ranks that exchange nothing: the machine's own limit."""
    if not (limit := [turn[0] for name in APART for turn in found.get(name, [])]):
        return ()
    shares = {
        way: quartiles(
            ratios([1 / turn[0] for turn in found[way]], [1 / seconds for seconds in limit])
        )
        for way in WAYS
    }
    words = [f"{way} {at:.2f} ({low:.2f} to {high:.2f})" for way, (low, at, high) in shares.items()]
    return (f"Of the speed of ranks that exchange nothing: {', '.join(words)}.",)
