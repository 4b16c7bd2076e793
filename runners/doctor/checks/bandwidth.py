"""How fast the ranks of the trial summed, and whether their network can do more."""

from __future__ import annotations

from ...core.remedy import change
from ...core.text import table_lines
from ..finding import About, Finding
from . import network
from .world import Record

ABOUT = About("network of the job")
MB = 10**6
# Bus bandwidth below this part of the interface's speed is not the network's doing.
SLOW = 0.05


def check(result: Record) -> list[Finding]:
    ranks, table = result["ranks"], result["bandwidth"]
    several_nodes = len({record["host"] for record in ranks}) > 1
    return [_allreduce(table), *(_slow(ranks, table) if several_nodes else ())]


def _allreduce(table: list[Record]) -> Finding:
    rows = [
        [str(row["bytes"]), f"{row['seconds']:.6f}", _rate(row["algorithm"]), _rate(row["bus"])]
        for row in table
    ]
    lines = table_lines([["bytes", "seconds", "algorithm", "bus"], *rows], right=True)
    lines.append("bus = algorithm * 2 (n - 1) / n, as in nccl-tests")
    if not all(row["right"] for row in table):
        says = "sums of the ranks are wrong"
        fix = "runner verify IMAGE, and another --controller"
        return ABOUT.failure("allreduce", says, "\n".join(lines), fix)
    says = f"{_rate(table[-1]['bus'])} bus bandwidth at {table[-1]['bytes'] // 2**20} MiB"
    return ABOUT.ok("allreduce", says, "\n".join(lines))


def _rate(value: float) -> str:
    return f"{value / MB:.0f} MB/s"


def _slow(ranks: list[Record], table: list[Record]) -> list[Finding]:
    """Return a warning when the largest sum is far below what the interface used can do."""
    used = next(iter(network.sent_bytes(ranks)), "")
    interfaces = next(iter(network.of_nodes(ranks).values())).interfaces
    speed = next((item.speed for item in interfaces if item.name == used), 0)
    megabits = table[-1]["bus"] * 8 / MB
    if not speed or megabits > speed * SLOW:
        return []
    says = f"{megabits:.0f} Mbit/s of the {network.rate(speed)} that {used} can do"
    fix = change(job=True, ntasks_per_node=1, exclusive=True)
    return [ABOUT.warning("speed", says, "", fix)]
