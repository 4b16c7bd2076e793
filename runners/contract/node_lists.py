"""Slurm's lists of nodes, and of tasks per node."""

from __future__ import annotations

import re


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
    names: list[str] = []
    # Commas within brackets belong to the brackets.
    for name in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text):
        names += _expand_name(name)
    if not names:
        raise ValueError(f"node list {text!r} names no node")
    return tuple(names)


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
    numbers: list[str] = []
    for part in inner.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise ValueError(f"{inner!r} is not a range of Slurm's, such as 03-05,7")
        first, last = match.group(1), match.group(2) or match.group(1)
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
