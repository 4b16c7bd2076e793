"""Slurm's ways to ask for GPUs, in one form: type and number on each node."""

from __future__ import annotations

import re

from .model import Resources

# [TYPE:]N; NVIDIA's names of parts of a GPU (MIG) are types: 1g.10gb, a100_2g.10gb
TYPED = re.compile(r"(?:[\w.+-]+:)?[1-9]\d*")
MIG = re.compile(r"\d+g\.\d+gb")


def settings_used(resources: Resources) -> list[str]:
    """Return the settings by which GPUs are asked for."""
    names = ["gpus", "gpus_per_node", "gpus_per_task"]
    given = [name for name in names if getattr(resources, name)]
    return [name.replace("_", "-") for name in [*given, *["gres"] * bool(in_gres(resources.gres))]]


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


def typed(text: str) -> tuple[str, int]:
    """Return type and number of `[TYPE:]N` or `TYPE`, of which Slurm takes one."""
    kind, _, number = text.rpartition(":")
    return (kind, int(number)) if number.isdigit() else (text, 1)
