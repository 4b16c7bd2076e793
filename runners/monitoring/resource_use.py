"""What a run used of its nodes, as use.json of its folder says, and what to ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..contract import node_use, use_summary
from ..contract.node_use import NodeUse, UsageFinding
from ..core import files
from ..core.diagnosis import Diagnosis, warning
from ..core.errors import SystemFault
from ..core.files import DAMAGED
from ..core.job_record import JobPaths
from ..core.remedy import change


@dataclass(frozen=True)
class RunUse:
    """What each node was used for, and what was found; `value` is as it is written down.

    `table` has rows and headers.
    """

    nodes: tuple[NodeUse, ...]
    findings: tuple[Diagnosis, ...]
    value: Mapping[str, Any]
    table: tuple[list[list[str]], list[str]]


def of_run(paths: JobPaths) -> RunUse | None:
    """Return what a run used; None before its first minute, and of a run that measured nothing.

    Raises SystemFault for a record that cannot be read.
    """
    value = files.read_json(paths.use)
    if value is None:
        return None
    try:
        nodes = tuple(node_use.read(value))
        # All that will be shown is made here: a record of another user's may hold anything.
        findings = tuple(map(_diagnosis, use_summary.findings(nodes)))
        made = RunUse(nodes, findings, value, use_summary.rows(nodes))
        measured(made)
        return made
    except DAMAGED as error:
        raise SystemFault(f"cannot read {paths.use}", str(error), id="use-unreadable") from None


def _diagnosis(finding: UsageFinding) -> Diagnosis:
    """Return what the job has found, whose rooms know no remedies."""
    remedies = [change(finding.options)] if finding.options else []
    return warning(finding.id, use_summary.sentence(finding), *remedies)


def measured(use: RunUse | None) -> dict[str, float]:
    """Return a run's numbers for comparing: means over its nodes, and the highest peak."""
    nodes = use.nodes if use else ()
    cpus = [node.cpus_used for node in nodes if node.cpus_used is not None]
    memory = [node.memory_peak_bytes for node in nodes if node.memory_peak_bytes is not None]
    gpus = [share for node in nodes if (share := node.mean_of_gpus("use_mean")) is not None]
    numbers: dict[str, float] = {}
    if cpus:
        numbers["cpus_used_per_node"] = sum(cpus) / len(cpus)
    if memory:
        numbers["memory_peak_gb_per_node"] = max(memory) / 1e9
    if gpus:
        numbers["gpu_use_percent"] = 100 * sum(gpus) / len(gpus)
    return numbers
