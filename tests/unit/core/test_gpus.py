"""Slurm's ways to ask for GPUs."""

from __future__ import annotations

import pytest

from runners.core import gpus
from runners.core.model import Resources


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (Resources(gpus_per_node="A100:4"), ("A100", 4)),
        (Resources(gpus_per_node="4"), ("", 4)),
        (Resources(nodes=2, gpus="8"), ("", 4)),
        (Resources(nodes=2, ntasks=8, gpus_per_task="1"), ("", 4)),
        (Resources(nodes=2, ntasks=3, gpus_per_task="1"), ("", 2)),  # on the fuller one
        (Resources(gres="gpu:A100:2,nvme:1"), ("A100", 2)),
        (Resources(gres="gpu"), ("", 1)),
        (Resources(gres="gpu:a100_1g.5gb:7"), ("a100_1g.5gb", 7)),
        (Resources(gres="nvme:1"), None),
        (Resources(), None),
    ],
)
def test_ways_to_ask_for_gpus(resources: Resources, expected: tuple[str, int] | None) -> None:
    assert gpus.on_a_node(resources) == expected
