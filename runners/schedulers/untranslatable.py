"""Slurm's words for schedulers that have others: what they lack is refused by name. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from ..core.model import JobSpec, Refusal, Resources
from ..core.remedy import change
from . import time_limits

GPUS = "gpus_per_node"  # of which --gpus and --gpus-per-task have another number


def unknown(
    spec: JobSpec, title: str, has: frozenset[str], instead: Mapping[str, str]
) -> list[Refusal]:
    """Return a refusal for each setting that was given and is not among those it `has`.

    `instead` names, by setting, the one that says the same there.
    """
    found = []
    for name in asked(spec.resources):
        if name in has:
            continue
        option, value = "--" + name.replace("_", "-"), getattr(spec.resources, name)
        evidence = f"{option} is {value}; --sbatch-arg takes any line of {title}'s own"
        other = instead.get(name, "")
        said = _gpus_of_a_node(spec.resources) if other == GPUS else value
        options = {other.replace("_", "-"): said} if other and said is not None else {}
        remedy = change(options, leave_out=[option[2:]])
        found.append(Refusal(f"{title} has no {option}", evidence, (remedy,)))
    return [*found, *_endless(spec, title), *_output(spec, title)]


def _gpus_of_a_node(resources: Resources) -> int | None:
    """Return how many --gpus or --gpus-per-task come to on a node; None when that is not even."""
    if resources.gpus and resources.gpus.isdigit():
        each, rest = divmod(int(resources.gpus), resources.nodes)
        return each if not rest else None
    if resources.gpus_per_task and resources.gpus_per_task.isdigit():
        return int(resources.gpus_per_task) * -(-resources.tasks // resources.nodes)
    return None


def asked(resources: Resources) -> Iterator[str]:
    """Yield the names of the resources that were asked for."""
    for item in fields(resources):
        if getattr(resources, item.name) not in (None, False):
            yield item.name


def _endless(spec: JobSpec, title: str) -> Iterator[Refusal]:
    limit = spec.resources.time
    if limit is None:
        yield Refusal(
            f"{title} wants a time limit", "--time is not given", (change(time="01:00:00"),)
        )
    elif time_limits.seconds(limit) is None:
        yield Refusal(f"{title} has no --time {limit}", "", (change(time="01:00:00"),))


def _output(spec: JobSpec, title: str) -> Iterator[Refusal]:
    if "%" in (spec.output or ""):
        what = f"{title} fills in no patterns such as %j"
        yield Refusal(what, f"--output is {spec.output}", (change(leave_out=["output"]),))
