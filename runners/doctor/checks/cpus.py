"""CPU affinity of the trial's ranks -> findings."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any

from ...core.remedy import advice
from ..finding import OK, WARNING, Finding

SUBJECT = "CPUs"
Record = dict[str, Any]


def check(ranks: list[Record]) -> list[Finding]:
    """Return whether ranks share CPUs, and whether each has as many as it starts threads."""
    return [_shared(ranks), *_threads(ranks)]


def _shared(ranks: list[Record]) -> Finding:
    lines = "\n".join(shown(record) for record in sorted(ranks, key=lambda r: r["rank"]))
    pairs = [pair for group in _by_host(ranks).values() for pair in combinations(group, 2)]
    together = [(a, b) for a, b in pairs if set(a["cpus"]) & set(b["cpus"])]
    if not together:
        says = "no two ranks of a node share a CPU"
        return Finding(SUBJECT, "affinity", OK, says, lines)
    if all(set(a["cpus"]) == set(b["cpus"]) for a, b in together):
        says = "ranks of a node are not bound: they share its CPUs"
    else:
        first, second = together[0]
        says = f"ranks {first['rank']} and {second['rank']} have some CPUs in common"
    fix = advice("runner launch --cpu-bind cores --cpus-per-task N ...")
    return Finding(SUBJECT, "affinity", WARNING, says, lines, fix)


def _by_host(ranks: list[Record]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in ranks:
        groups[record["host"]].append(record)
    return groups


def _threads(ranks: list[Record]) -> list[Finding]:
    short = [record for record in ranks if record.get("threads", 0) > len(record["cpus"])]
    if not short:
        return []
    record = short[0]
    says = f"{record['threads']} threads on {len(record['cpus'])} CPUs, on {len(short)} ranks"
    fix = f"runner launch --cpus-per-task {record['threads']} ..., or --env OMP_NUM_THREADS=" + (
        str(len(record["cpus"]))
    )
    return [Finding(SUBJECT, "threads", WARNING, says, "\n".join(map(shown, short)), advice(fix))]


def shown(record: Record) -> str:
    """Return a rank's CPUs in one line."""
    name = f"rank {record['rank']}@{record['host']}"
    threads = f", {record['threads']} threads" if "threads" in record else ""
    return f"{name}: CPUs {ranges(record['cpus'])} of {record['cpus_of_node']}{threads}"


def ranges(cpus: list[int]) -> str:
    """Return 0-3,8 for [0, 1, 2, 3, 8]."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
