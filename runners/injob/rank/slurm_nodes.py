"""Slurm's short forms written out: tasks per node, node lists, and which node runs which rank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def expand_counts(text: str) -> tuple[int, ...]:
    """Expand Slurm's tasks per node: `2(x3),1` is (2, 2, 2, 1). Raises ValueError."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise ValueError(f"tasks per node {text!r} is not in Slurm's form, such as 2(x3),1")
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    return tuple(counts)


def expand_nodes(text: str) -> tuple[str, ...]:
    """Expand a Slurm node list: `n[03-05,7],m1` is (n03, n04, n05, n7, m1). Raises ValueError."""
    found: list[str] = []
    # Commas within brackets belong to the brackets.
    for name in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text):
        found += _expand_name(name)
    if not found:
        raise ValueError(f"node list {text!r} names no node")
    return tuple(found)


def _expand_name(name: str) -> list[str]:
    """Expand the first brackets of one name, then those of what follows them."""
    before, bracket, rest = name.partition("[")
    if not bracket:
        return [name]
    inner, _, after = rest.partition("]")
    tails = _expand_name(after)
    return [f"{before}{number}{tail}" for number in _numbers(inner) for tail in tails]


def _numbers(inner: str) -> list[str]:
    """Expand `03-05,7` to 03, 04, 05, 7: leading zeros are part of a name."""
    found: list[str] = []
    for part in inner.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise ValueError(f"{inner!r} is not a range of Slurm's, such as 03-05,7")
        first, last = match.group(1), match.group(2) or match.group(1)
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found


def ranks_by_node(counts: Sequence[int], distribution: str, plane: int) -> tuple[int, ...]:
    """Return the node's index for each rank; () for `arbitrary`, which only its hostfile tells.

    `distribution` is SLURM_DISTRIBUTION, its part for nodes (before the first colon); `plane` is
    the number of ranks that a plane distribution gives a node at a time.
    """
    kind = distribution.partition(":")[0].partition(",")[0]
    if kind == "arbitrary":
        return ()
    at_a_time = {"cyclic": 1, "plane": max(plane, 1)}.get(kind, max(counts))
    left, order = list(counts), []
    while any(left):
        for node, count in enumerate(left):
            taken = min(count, at_a_time)
            order += [node] * taken
            left[node] -= taken
    return tuple(order)


def hosts_of_ranks(env: Mapping[str, str], counts: Sequence[int]) -> tuple[str, ...]:
    """Return the node's name for each rank of this step; () when Slurm does not tell."""
    nodes = expand_nodes(env.get("SLURM_STEP_NODELIST") or env["SLURM_JOB_NODELIST"])
    plane = int(env.get("SLURM_DIST_PLANESIZE", "1"))
    order = ranks_by_node(counts, env.get("SLURM_DISTRIBUTION", "block"), plane)
    return tuple(nodes[node] for node in order) if len(nodes) == len(counts) else ()
