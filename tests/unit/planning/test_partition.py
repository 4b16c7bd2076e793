"""What a job asks for and its partition does not have."""

from __future__ import annotations

import pytest

from runners.core.model import Resources

from .. import sentences
from .slurm_site import solved


@pytest.mark.parametrize(
    ("resources", "id", "remedy"),
    [
        (Resources(gpus_per_node="1"), "partition-gpus", "--partition a100"),
        (
            Resources(partition="a100", gpus_per_node="V100:2"),
            "partition-gpus",
            "--partition mixed",
        ),
        (Resources(partition="a100", gpus_per_node="9"), "partition-gpus", ""),
        (
            Resources(partition="mixed", gpus_per_node="V100:4"),
            "partition-gpus",
            "",
        ),
        (
            Resources(partition="a100", gpus_per_node="4", ntasks_per_node=8),
            "gpu-shared",
            "--ntasks-per-node 4",
        ),
        (Resources(ntasks_per_node=40), "partition-cpus", "--overcommit"),
        (
            Resources(ntasks_per_node=8, cpus_per_task=8),
            "partition-cpus",
            "--cpus-per-task 4",
        ),
        (Resources(ntasks=64), "partition-cpus", "--nodes 2"),
        (
            Resources(ntasks_per_node=40),
            "partition-cpus",
            "--ntasks-per-node 32, leave out --ntasks",
        ),
        (Resources(nodes=5, partition="a100"), "partition-nodes", "--partition cpu"),
        (Resources(nodes=11), "partition-nodes", "--nodes 10"),
        (Resources(time="25:00:00"), "partition-time", "--time 1-00:00:00"),
        (Resources(time="1-1"), "partition-time", "--partition mixed"),
    ],
)
def test_what_the_partition_does_not_have(resources: Resources, id: str, remedy: str) -> None:
    (refusal,) = solved(resources).refusals
    told, *remedies = sentences.told(refusal)
    assert told == id
    assert not remedy or remedy in remedies


@pytest.mark.parametrize(
    "resources",
    [
        Resources(time="24:00:00"),
        Resources(time="2-0", partition="a100"),  # nothing is known of its limit
        Resources(time="2-0", qos="long"),
    ],
)
def test_time_that_there_is(resources: Resources) -> None:
    assert solved(resources).refusals == ()
