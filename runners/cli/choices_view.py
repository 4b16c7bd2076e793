"""What a plan chose, as lines for people: labels of the identifiers, words for the values."""

from __future__ import annotations

import click

from ..core.model import Caution, Choice, Plan
from . import suggest, typed

LABELS = {
    "cpu-bind": "CPU binding",
    "cpus-per-task": "CPUs for each rank",
    "cycle-time-ms": "cycle time (ms)",
    "data": "dataset",
    "data-plane": "gradients go over",
    "driver": "NVIDIA driver",
    "fusion-threshold-mb": "fusion threshold (MB)",
    "glibc": "C library",
    "gpu-of-a-rank": "GPU of a rank",
    "gpu-request": "GPU request",
    "host-mpi": "host MPI in the image",
    "mpi": "srun --mpi",
    "mpi-gives-way": "waiting in MPI gives way",
    "nv": "--nv",
    "rocm": "--rocm",
    "signal": "warning before the time limit",
    "stage-data": "data read from",
    "stage-image": "image read from",
    "start-timeout": "start time-out",
    "timeline-filename": "timeline",
}
FORMS = {"driver": "{} or newer", "requeue": "up to {} times", "signal": "{} s"}
WORDS = {
    ("driver", "any"): "any",
    ("gpu-of-a-rank", "local-rank"): "local rank modulo the visible ones",
    ("gpu-of-a-rank", "visible"): "the visible one",
    ("recipe", "host"): "from this machine",
    ("recipe", "image"): "from the image",
    **dict.fromkeys((("stage-data", "none"), ("stage-image", "none")), "where it lies"),
    ("stage-data", "node-local"): "each node's own disk",
    ("stage-image", "node-local"): "each node's own disk",
    ("stage-image", "unpack"): "each node's own disk, unpacked",
    ("stage-image", "mount"): "where it lies, by one mount a node",
}


def label(choice: Choice) -> str:
    """Return what was chosen, in words."""
    return LABELS.get(choice.id, choice.id)


def value(choice: Choice) -> str:
    """Return the value in words."""
    form = "{}" if isinstance(choice.value, bool) else FORMS.get(choice.id, "{}")
    return WORDS.get((choice.id, choice.text), form.format(choice.text))


def show(made: Plan) -> None:
    """Print every choice with its reason, beside the output proper."""
    for choice in made.choices:
        click.echo(f"  {line(choice)}", err=True)


def line(choice: Choice) -> str:
    """Return a choice with its reason as one line."""
    return f"{label(choice)}: {value(choice)} ({choice.reason})"


def warn(made: Plan) -> None:
    """Print the warnings, with what to type against them."""
    for caution in made.warnings:
        click.echo(f"runner: warning: {warning(caution)}", err=True)


def warning(caution: Caution) -> str:
    """Return a warning, with what to type against it on a line of its own."""
    commands = [suggest.text(remedy, typed.command_line()) for remedy in caution.remedies]
    return "\n  try: ".join([caution.what, *commands])
