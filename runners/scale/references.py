"""Published scaling results, shown beside a study; they stand in references.toml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import UsageError, nearest
from ..settings.config_files import read_toml
from .summary import TOO_GOOD

FILE = Path(__file__).parent / "references.toml"
ALL = "all"


@dataclass(frozen=True)
class PublishedSeries:
    """One published series: ranks and the efficiency at each, relative to its smallest size."""

    name: str
    title: str
    source: str
    ranks: tuple[int, ...]
    efficiency: tuple[float, ...]
    seconds: tuple[float, ...] = ()
    total: bool = False

    @property
    def doubt(self) -> str:
        """What makes it hard to believe or to compare; "" for nothing."""
        if max(self.efficiency) > TOO_GOOD:
            return f"{max(self.efficiency):.0%} at its best: the smallest size was slow or cold"
        return "start-up is in it" if self.total else ""


def known_references() -> dict[str, PublishedSeries]:
    return {name: _reference(name, table) for name, table in read_toml(FILE).items()}


def _reference(name: str, table: dict[str, Any]) -> PublishedSeries:
    ranks, seconds = table["ranks"], table.get("seconds", ())
    # Seconds for the same work: the throughput is their inverse.
    computed = [seconds[0] / s / (n / ranks[0]) for n, s in zip(ranks, seconds)]
    return PublishedSeries(
        name, table["title"], table["source"], tuple(ranks),
        tuple(table.get("efficiency", computed)), tuple(seconds), table.get("total", False),
    )  # fmt: skip


def references(names: Sequence[str]) -> list[PublishedSeries]:
    """Return the references of these names, "all" for every one; raise UsageError for no such."""
    known = known_references()
    for name in names:
        if name != ALL and name not in known:
            raise UsageError(
                f"--reference {name}: there is none",
                nearest(name, [*known, ALL]),
                id="reference-unknown",
            )
    return [reference for name, reference in known.items() if name in names or ALL in names]
