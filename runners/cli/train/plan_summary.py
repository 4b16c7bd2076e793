"""A plan for people: what was chosen, the warnings, and what runs where as one line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from ...contract.enums import Controller, ProcessGroup
from ...core import diagnosis
from ...core.diagnosis import Diagnosis
from ...core.model import DataAccess, ImageAccess, LauncherName, Resources
from ...core.plan import Choice, ChoiceId, GpuOfRank, Plan, Provider
from ...core.text import count
from ...schedulers.base import limit_seconds
from ...settings import suggest
from .. import invocation, printer

LABELS = {
    ChoiceId.CPU_BIND: "CPU binding",
    ChoiceId.CPU_LEVEL: "CPU level",
    ChoiceId.CPUS_PER_TASK: "CPUs per rank",
    ChoiceId.CYCLE_TIME_MS: "cycle time (ms)",
    ChoiceId.DATA: "dataset",
    ChoiceId.GRADIENT_TRANSPORT: "gradient transport",
    ChoiceId.DRIVER: "NVIDIA driver",
    ChoiceId.FUSION_THRESHOLD_MB: "fusion threshold (MB)",
    ChoiceId.GLIBC: "C library",
    ChoiceId.GPU_LIBRARIES: "driver's library searched first",
    ChoiceId.GPU_OF_A_RANK: "GPU of a rank",
    ChoiceId.GPU_REQUEST: "GPU request",
    ChoiceId.HOST_MPI: "host MPI in the image",
    ChoiceId.MPI: "srun --mpi",
    ChoiceId.MPI_YIELD_WHEN_IDLE: "idle MPI ranks yield the CPU",
    ChoiceId.NETWORK_INTERFACES: "network interfaces",
    ChoiceId.NV: "--nv",
    ChoiceId.ROCM: "--rocm",
    ChoiceId.SIGNAL: "warning before the time limit",
    ChoiceId.STAGE_DATA: "data read from",
    ChoiceId.STAGE_IMAGE: "image read from",
    ChoiceId.START_TIMEOUT: "start time-out",
    ChoiceId.TIMELINE_FILENAME: "timeline",
}
FORMS = {
    ChoiceId.DRIVER: "{} or newer",
    ChoiceId.REQUEUE: "up to {} times",
    ChoiceId.SIGNAL: "{} s",
}
WORDS = {
    (ChoiceId.DRIVER, "any"): "any",
    (ChoiceId.GPU_LIBRARIES, Provider.HOST): "the host's",
    (ChoiceId.GPU_LIBRARIES, Provider.IMAGE): "the image's",
    (ChoiceId.GPU_OF_A_RANK, GpuOfRank.LOCAL_RANK): "local rank modulo the visible ones",
    (ChoiceId.GPU_OF_A_RANK, GpuOfRank.VISIBLE): "the visible one",
    (ChoiceId.RECIPE, Provider.HOST): "from this machine",
    (ChoiceId.RECIPE, Provider.IMAGE): "from the image",
    (ChoiceId.STAGE_DATA, DataAccess.IN_PLACE): "where it lies",
    (ChoiceId.STAGE_DATA, DataAccess.COPIED): "each node's own disk",
    (ChoiceId.STAGE_IMAGE, ImageAccess.IN_PLACE): "where it lies",
    (ChoiceId.STAGE_IMAGE, ImageAccess.COPIED): "each node's own disk",
    (ChoiceId.STAGE_IMAGE, ImageAccess.UNPACKED): "each node's own disk, unpacked",
    (ChoiceId.STAGE_IMAGE, ImageAccess.MOUNTED): "where it lies, by one mount a node",
}
PMI = {"pmix": "PMIx", "pmi2": "PMI-2", "cray_shasta": "Cray PMI"}


def label(choice: Choice) -> str:
    return LABELS.get(choice.id, choice.id)


def value(choice: Choice) -> str:
    form = "{}" if isinstance(choice.value, bool) else FORMS.get(choice.id, "{}")
    return WORDS.get((choice.id, choice.text), form.format(choice.text))


def warn_of_secrets() -> None:
    """Print a warning of each password that was typed as the value of --env."""
    for name in invocation.command_line().secrets:
        instead = f"try: export {name}=..., and --env {name}"
        printer.tell(f"warning: all users of this machine see the value of {name}\n  {instead}")


def warn(made: Plan) -> None:
    """Print the warnings of a plan that is accepted, also what it is refused for without force."""
    for found in made.warnings:
        printer.tell(f"warning: {warning(found)}")
    if made.refusals:
        from ...launching import working_remedies

        here = invocation.command_line()
        error = working_remedies.refused(made, here)
        working_remedies.offer(error, here)
        printer.tell(f"warning: submitted by force, although {error}")


def warning(found: Diagnosis) -> str:
    """Return a warning, with what to type against it on a line of its own."""
    if not found.remedies:
        return found.what
    from ...launching import working_remedies  # few warnings have any

    here = invocation.command_line()
    works = replace(found, remedies=tuple(working_remedies.against(found, here)))
    return "\n".join(diagnosis.lines(works, partial(suggest.text, typed=here)))


def show(made: Plan, verbose: bool) -> None:
    """Print GPUs by default, and the line; with `verbose` every choice with its reason."""
    for choice in made.choices:
        if choice.id is ChoiceId.GPUS_PER_NODE:
            click.echo(f"{label(choice)}: {value(choice)}, since {choice.reason}", err=True)
    click.echo(line(made), err=True)
    if verbose:
        for choice in made.choices:
            said = f"{label(choice)}: {value(choice)} ({choice.reason})"
            click.echo(f"  {said}", err=True)


def line(made: Plan) -> str:
    """Return such as `2 nodes x 1 rank, 2 CPUs each, 30 min, cpu.sif, MPI over PMIx`."""
    resources, image = made.resources, made.spec.image.path.name
    parts = [
        _places(resources),
        f"{count(resources.cpus_per_task, 'CPU')} each" if resources.cpus_per_task else "",
        *_gpus(resources),
        _limit(resources.time) if resources.time else "",
        f"partition {resources.partition}" if resources.partition else "",
        image,
        _meeting(made),
    ]
    return ", ".join(part for part in parts if part)


def _places(resources: Resources) -> str:
    nodes = count(resources.nodes, "node")
    ranks, rest = divmod(resources.tasks, resources.nodes)
    if rest or not ranks:
        return f"{count(resources.tasks, 'rank')} on {nodes}"
    return f"{nodes} x {count(ranks, 'rank')}"


def _limit(text: str) -> str:
    """Return Slurm's `30:00` as `30 min`, and as it is what is not in whole minutes."""
    seconds = limit_seconds(text)
    if not seconds or seconds % 60:
        return f"time {text}"
    hours, minutes = divmod(seconds // 60, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else ""]
    return " ".join(part for part in parts if part)


def _gpus(resources: Resources) -> list[str]:
    numbers = (
        ("", resources.gpus),
        (" on each node", resources.gpus_per_node),
        (" for each rank", resources.gpus_per_task),
    )
    lines = [f"GPUs{where}: {number}" for where, number in numbers if number]
    return lines + ([resources.gres] if resources.gres else [])


def _meeting(made: Plan) -> str:
    trainer = made.spec.trainer
    if trainer.is_alone:
        return "one process"
    world = trainer.world or trainer.seen_world
    if world is None and trainer.module is None:
        return ""  # a program, or a script that exchanges nothing as far as can be seen
    if world not in (None, ProcessGroup.HOROVOD):
        return str(world)
    if made.wireup.controller is not Controller.MPI:
        return "Gloo" if made.wireup.controller is Controller.GLOO else "without Horovod"
    if made.launching.launcher is not LauncherName.SRUN:
        return f"MPI by {made.launching.launcher}"
    kind = (made.wireup.mpi or "").partition("_v")[0]
    return f"MPI over {PMI.get(kind, kind)}" if kind else "MPI"
