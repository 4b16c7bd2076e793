"""CPU affinity of the trial's ranks -> findings."""

from __future__ import annotations

from itertools import combinations

from ..finding import About, Finding
from .world import Record, grouped

ABOUT = About("CPUs")


def check(ranks: list[Record]) -> list[Finding]:
    """Return whether ranks share CPUs, and whether each has as many as it starts threads."""
    return [_shared(ranks), *_threads(ranks)]


def _shared(ranks: list[Record]) -> Finding:
    lines = "\n".join(shown(record) for record in sorted(ranks, key=lambda r: r["rank"]))
    pairs = [pair for group in grouped(ranks, "host").values() for pair in combinations(group, 2)]
    together = [(a, b) for a, b in pairs if set(a["cpus"]) & set(b["cpus"])]
    if not together:
        says = "no two ranks of a node share a CPU"
        return ABOUT.ok("affinity", says, lines)
    if all(set(a["cpus"]) == set(b["cpus"]) for a, b in together):
        says = "ranks of a node are not bound: they share its CPUs"
    else:
        first, second = together[0]
        says = f"ranks {first['rank']} and {second['rank']} have some CPUs in common"
    fix = "runner launch --cpu-bind cores --cpus-per-task N ..."
    return ABOUT.warning("affinity", says, lines, fix)


def _threads(ranks: list[Record]) -> list[Finding]:
    short = [record for record in ranks if record.get("threads", 0) > len(record["cpus"])]
    if not short:
        return []
    threads, cpus = short[0]["threads"], len(short[0]["cpus"])
    says = f"{threads} threads on {cpus} CPUs, on {len(short)} ranks"
    fix = f"runner launch --cpus-per-task {threads} ..., or --env OMP_NUM_THREADS={cpus}"
    return [ABOUT.warning("threads", says, "\n".join(map(shown, short)), fix)]


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
