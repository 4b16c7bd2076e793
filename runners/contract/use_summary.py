"""Prints what a job used as a table, and what it left unused or nearly ran out of, with fixes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .node_use import NodeUse, UsageFinding

IDLE_GPU, IDLE_CPUS, MEMORY = "idle-gpu", "idle-cpus", "memory-near-limit"
LEAST_SECONDS = 60.0  # a shorter job is mostly its own start
IDLE = 0.1  # of the time with a kernel running
UNUSED_BYTES = 1 << 30  # a CUDA context alone has less
UNUSED_CPUS, LEAST_CPUS = 0.25, 4  # share of a rank's CPUs, of which it has so many
NEAR = 0.9  # of the limit
SPARE = 1.25  # what is asked for, relative to what was used
GIGABYTE = 1 << 30
NOT_MEASURED = "not measured"
MOST = 16  # nodes in the log
HEADERS = ("node", "ranks", "CPUs used", "memory peak")
OF_GPUS = ("GPU use", "GPU memory peak", "GPU power", "GPU clock")
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def findings(nodes: Sequence[NodeUse]) -> list[UsageFinding]:
    """Return the findings, each once, with the number of nodes.

    Fewer CPUs are not suggested where GPUs wait: the CPUs could load data.
    """
    seen: dict[str, list[UsageFinding]] = {}
    for node in nodes:
        gpus = [*_gpus(node)]
        waiting = any(finding.numbers["unused"] < finding.numbers["idle"] for finding in gpus)
        for finding in (*_memory(node), *gpus, *(() if waiting else _cpus(node))):
            seen.setdefault(finding.id, []).append(finding)
    return [replace(alike[0], nodes=len(alike)) for alike in seen.values()]


def _memory(node: NodeUse) -> Iterator[UsageFinding]:
    in_group = node.memory_limit_of == "cgroup"
    used = node.memory_group_peak_bytes if in_group else node.memory_peak_bytes
    limit = node.memory_limit_bytes
    if used is None or not limit or used < NEAR * limit:
        return
    numbers = {"used_bytes": used, "limit_bytes": limit, "limit_of": node.memory_limit_of}
    options = {"mem": f"{math.ceil(SPARE * limit / GIGABYTE)}G"}
    yield UsageFinding(
        MEMORY, node.host, numbers, {} if node.memory_limit_of == "node" else options
    )


def _gpus(node: NodeUse) -> Iterator[UsageFinding]:
    """Yield a finding where GPUs computed little: they are unused, or they wait."""
    gpus = list((node.gpus or {}).values())
    idle = [gpu for gpu in gpus if gpu["use_mean"] is not None and gpu["use_mean"] < IDLE]
    if not idle or node.seconds < LEAST_SECONDS:
        return
    unused = [gpu for gpu in idle if (gpu["memory_peak_bytes"] or 0) < UNUSED_BYTES]
    numbers = {
        "idle": len(idle),
        "unused": len(unused),
        "gpus": len(gpus),
        "ranks": node.ranks,
        "use_mean": sum(gpu["use_mean"] for gpu in idle) / len(idle),
    }
    options: dict[str, Any] = {}
    if unused and node.ranks < len(gpus):
        options = {"ntasks-per-node": len(gpus)}
    elif unused and len(unused) < len(gpus):
        options = {"gpus-per-node": len(gpus) - len(unused)}
    yield UsageFinding(IDLE_GPU, node.host, numbers, options)


def _cpus(node: NodeUse) -> Iterator[UsageFinding]:
    """Yield a finding where ranks used few of their CPUs."""
    if node.seconds < LEAST_SECONDS:
        return
    few = []
    for rank_use in node.of_ranks:
        seconds = rank_use.cpu_seconds
        used = None if seconds is None else seconds / node.seconds / rank_use.workers
        cpus = rank_use.cpus // rank_use.workers
        if used is not None and cpus >= LEAST_CPUS and used <= UNUSED_CPUS * cpus:
            few.append((used, cpus, rank_use.rank))
    if few:
        used, cpus, rank = max(few)
        numbers = {"rank": rank, "used": used, "cpus": cpus, "ranks": len(few)}
        options = {"cpus-per-task": max(1, math.ceil(SPARE * used))}
        yield UsageFinding(IDLE_CPUS, node.host, numbers, options)


def sentence(finding: UsageFinding) -> str:
    """Return the finding as a sentence, with a fix where no option is one."""
    numbers, where = finding.numbers, finding.node
    if finding.nodes > 1:
        where += f" and {finding.nodes - 1} more nodes"
    if finding.id == MEMORY:
        whose = {"cgroup": "the job's limit", "slurm": "--mem"}.get(
            numbers["limit_of"], "the node's memory"
        )
        used, limit = (numbers[name] / GIGABYTE for name in ("used_bytes", "limit_bytes"))
        text = f"{used:.1f} GiB of {limit:.1f} GiB used, near {whose}"
        return f"{where}: {text}" + ("" if finding.options else "; use fewer ranks per node")
    if finding.id == IDLE_GPU:
        share = f"{100 * numbers['use_mean']:.0f} %"
        text = f"{numbers['idle']} of {numbers['gpus']} GPUs were idle (use {share} of the time)"
        if numbers["unused"]:
            return f"{where}: {text}, {numbers['unused']} held no data: {numbers['ranks']} ranks"
        return f"{where}: {text}: they wait for data or for other ranks (more data loading workers)"
    return (
        f"{where}: rank {numbers['rank']} used {numbers['used']:.1f} of its {numbers['cpus']} CPUs "
        "(or let it use them: data loading workers, OMP_NUM_THREADS)"
    )


def rows(nodes: Sequence[NodeUse]) -> tuple[list[list[str]], list[str]]:
    """Return rows and headers. Without measured GPUs they have one column."""
    gpus = OF_GPUS if any(node.gpus for node in nodes) else ("GPUs",)
    return [[*_row(node), *_gpu_cells(node, len(gpus))] for node in nodes], [*HEADERS, *gpus]


def lines(nodes: Sequence[NodeUse], findings: Sequence[UsageFinding], file: str) -> Iterator[str]:
    """Yield the lines for the end of the log."""
    cells, headers = rows(nodes[:MOST])
    widths = [max(map(len, column)) for column in zip(headers, *cells)]
    yield "runner: what the job used, by node (means, unless it says peak)"
    for row in (headers, *cells):
        yield "runner:   " + "  ".join(map(str.ljust, row, widths)).rstrip()
    if len(nodes) > MOST:
        yield f"runner:   and {len(nodes) - MOST} more nodes: {file}"
    for finding in findings:
        options = " ".join(f"--{name} {value}" for name, value in finding.options.items())
        yield f"runner: {sentence(finding)}" + (f"; try: {options}" if options else "")


def _row(node: NodeUse) -> list[str]:
    used = node.cpus_used
    return [
        node.host,
        str(node.ranks),
        NOT_MEASURED if used is None else f"{used:.1f} of {node.cpus}",
        _of(node.memory_peak_bytes, node.memory_limit_bytes),
    ]


def _gpu_cells(node: NodeUse, columns: int) -> list[str]:
    if not node.gpus:
        return [NOT_MEASURED] * columns
    use, power = node.mean_of_gpus("use_mean"), node.mean_of_gpus("power_mean_watts")
    clock, highest = (
        node.mean_of_gpus(f"clock_{statistic}_mhz") for statistic in ("mean", "highest")
    )
    memory = [node.mean_of_gpus(f"memory_{statistic}_bytes") for statistic in ("peak", "total")]
    return [
        NOT_MEASURED if use is None else f"{100 * use:.0f} % of {len(node.gpus)}",
        _of(memory[0], memory[1]),
        NOT_MEASURED if power is None else f"{power:.0f} W",
        NOT_MEASURED
        if clock is None
        else f"{clock:.0f}" + (f" of {highest:.0f} MHz" if highest else " MHz"),
    ]


def _of(used: float | None, most: float | None) -> str:
    if used is None:
        return NOT_MEASURED
    return size(used) + (f" of {size(most)}" if most else "")


def size(number: float) -> str:
    """Return bytes as 1.2 GB, in powers of 1000."""
    for unit in UNITS:
        if number < 999.5 or unit == UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if number >= 99.5 or unit == "B" else f"{number:.1f} {unit}"
