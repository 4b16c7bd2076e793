"""What runs where, as one line: nodes, ranks, CPUs, GPUs, time, image, and how the ranks meet."""

from __future__ import annotations

import click

from ..core.model import Plan, Resources
from ..scale.number_format import count
from ..schedulers import time_limits
from . import choices_view

PMI = {"pmix": "PMIx", "pmi2": "PMI-2", "cray_shasta": "Cray PMI"}


def show(made: Plan, verbose: bool) -> None:
    """Print the line; with `verbose` every choice with its reason."""
    click.echo(line(made), err=True)
    if verbose:
        choices_view.show(made)


def line(made: Plan) -> str:
    """Return such as `2 nodes x 1 rank, 2 CPUs each, 30 min, cpu.sif, MPI over PMIx`."""
    asked, image = made.spec.resources, made.spec.image.name
    parts = [
        _places(asked),
        f"{count(asked.cpus_per_task, 'CPU')} each" if asked.cpus_per_task else "",
        *_gpus(asked),
        _limit(asked.time) if asked.time else "",
        f"partition {asked.partition}" if asked.partition else "",
        image,
        _meeting(made),
    ]
    return ", ".join(part for part in parts if part)


def _places(asked: Resources) -> str:
    nodes = count(asked.nodes, "node")
    each, rest = divmod(asked.tasks, asked.nodes)
    if rest or not each:
        return f"{count(asked.tasks, 'rank')} on {nodes}"
    return f"{nodes} x {count(each, 'rank')}"


def _limit(text: str) -> str:
    """Return Slurm's `30:00` as `30 min`, and as it is what is not in whole minutes."""
    seconds = time_limits.seconds(text)
    if not seconds or seconds % 60:
        return f"time {text}"
    hours, minutes = divmod(seconds // 60, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else ""]
    return " ".join(part for part in parts if part)


def _gpus(asked: Resources) -> list[str]:
    found = (
        ("", asked.gpus),
        (" on each node", asked.gpus_per_node),
        (" for each rank", asked.gpus_per_task),
    )
    told = [f"GPUs{where}: {number}" for where, number in found if number]
    return told + ([asked.gres] if asked.gres else [])


def _meeting(made: Plan) -> str:
    """Return how the ranks find each other."""
    if made.controller != "mpi":
        return {"gloo": "Gloo", "none": "without Horovod"}[made.controller]
    if made.launcher != "srun":
        return f"MPI by {made.launcher}"
    kind = (made.mpi or "").partition("_v")[0]
    return f"MPI over {PMI.get(kind, kind)}" if kind else "MPI"
