"""Records of the trial's ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Record = dict[str, Any]


def grouped(ranks: list[Record], name: str) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in ranks:
        groups[record[name]].append(record)
    return groups
