"""Slurm's ways to ask for GPUs, in one form: type and number on each node."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .model import JobSpec, Resources

# [TYPE:]N, and 0 for none; NVIDIA's names of parts of a GPU (MIG) are types: 1g.10gb, a100_2g.10gb
TYPED = re.compile(r"0|(?:[\w.+-]+:)?[1-9]\d*")
TYPE = re.compile(r"[\w.+-]*[A-Za-z][\w.+-]*")
MIG = re.compile(r"\d+g\.\d+gb")
SETTINGS = ("gpus", "gpus-per-node", "gpus-per-task", "gres")
# Options of sbatch's, and the resource of a PBS chunk, by which --sbatch-arg asks for GPUs.
BY_SBATCH = re.compile(
    r"(?:^|\s)(?:-G|--gpus(?:-per-\w+)?\b|--(?:gres|tres-per-\w+)[= ]\S*gpu)|\bngpus="
)


def settings_used(resources: Resources) -> list[str]:
    """Return the settings by which GPUs are asked for."""
    names = ["gpus", "gpus_per_node", "gpus_per_task"]
    given = [name for name in names if getattr(resources, name)]
    if in_gres(resources.gres):
        given.append("gres")
    return [name.replace("_", "-") for name in given]


def asks(name: str, text: str | None) -> bool:
    """Whether a setting of SETTINGS says anything about GPUs."""
    return bool(in_gres(text) if name == "gres" else text)


def is_none(name: str, text: str | None) -> bool:
    """Whether a setting of SETTINGS says that the job gets no GPUs, as --gpus-per-node 0 does."""
    wanted = in_gres(text) if name == "gres" else typed(text or "1")
    return wanted is not None and wanted[1] == 0


def by_sbatch(args: Sequence[str]) -> bool:
    """Whether options that the scheduler gets as they are ask for GPUs."""
    return bool(BY_SBATCH.search(" ".join(args)))


def settled(spec: JobSpec, resources: Resources) -> bool:
    """Whether anything typed or configured says what GPUs the job gets, or that it gets none."""
    said = (setting for setting in spec.settings if setting.name in SETTINGS)
    return (
        on_a_node(resources) is not None
        or any(asks(setting.name, str(setting.value)) for setting in said)
        or False in (spec.nv, spec.rocm)
        or by_sbatch(spec.sbatch_args)
    )


def on_a_node(resources: Resources) -> tuple[str, int] | None:
    """Return type ("" for any) and number of GPUs on each node; None when none are asked."""
    if resources.gpus_per_node:
        return typed(resources.gpus_per_node)
    if resources.gpus_per_task:
        kind, number = typed(resources.gpus_per_task)
        return kind, number * resources.tasks_of_a_node
    if resources.gpus:
        kind, number = typed(resources.gpus)
        return kind, number // resources.nodes
    return in_gres(resources.gres)


def shared_out(text: str, nodes: int) -> str:
    """Return, as [TYPE:]N, the least GPUs for each node that are at least those of --gpus."""
    kind, number = typed(text)
    return request(kind, -(-number // nodes))


def request(kind: str, number: int) -> str:
    """Return a type, "" for any, and a number as [TYPE:]N."""
    return f"{kind}:{number}" if kind else str(number)


def in_gres(gres: str | None) -> tuple[str, int] | None:
    """Return type and number of the GPUs among `gpu:A100:4,nvme:1`; gpu alone is one."""
    for part in (gres or "").split(","):
        name, _, rest = part.partition(":")
        if name == "gpu":
            return typed(rest or "1")
    return None


def type_of(text: str) -> str:
    """Return the type in a value of SETTINGS, such as A100 of gpu:A100:4; "" for any."""
    return (in_gres(text) or typed(text))[0]


def without(gres: str | None) -> str | None:
    """Return the generic resources that are no GPUs; None where there are no others."""
    others = [part for part in (gres or "").split(",") if part and part.partition(":")[0] != "gpu"]
    return ",".join(others) or None


def typed(text: str) -> tuple[str, int]:
    """Return type and number of `[TYPE:]N` or `TYPE`, of which Slurm takes one."""
    kind, _, number = text.rpartition(":")
    return (kind, int(number)) if number.isdigit() else (text, 1)
