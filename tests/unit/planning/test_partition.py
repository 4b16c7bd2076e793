"""What a job asks for and its partition does not have."""

from __future__ import annotations

import pytest

from runners.core.model import Resources

from .slurm_site import solved


@pytest.mark.parametrize(
    ("resources", "words", "remedy"),
    [
        (Resources(gpus_per_node="1"), "partition cpu has no GPUs", "--partition a100"),
        (
            Resources(partition="a100", gpus_per_node="V100:2"),
            "partition a100 has no GPUs of type V100",
            "--partition mixed",
        ),
        (Resources(partition="a100", gpus_per_node="9"), "no node of partition a100 has 9", ""),
        (
            Resources(partition="mixed", gpus_per_node="V100:4"),
            "no node of partition mixed has 4 GPUs",
            "",
        ),
        (
            Resources(partition="a100", gpus_per_node="4", ntasks_per_node=8),
            "NCCL refuses two ranks on one GPU",
            "--ntasks-per-node 4",
        ),
        (Resources(ntasks_per_node=40), "40 ranks with 1 CPU each: too many", "--overcommit"),
        (
            Resources(ntasks_per_node=8, cpus_per_task=8),
            "8 ranks with 8 CPUs each: too many for a node of partition cpu",
            "--cpus-per-task 4",
        ),
        (Resources(ntasks=64), "too many", "--nodes 2"),
        (Resources(ntasks_per_node=40), "too many", "--ntasks-per-node 32, leave out --ntasks"),
        (Resources(nodes=5, partition="a100"), "a100 has 4 nodes, fewer", "--partition cpu"),
        (Resources(nodes=11), "cpu has 10 nodes, fewer", "--nodes 10"),
        (Resources(time="25:00:00"), "a time limit of 1-00:00:00, less", "--time 1-00:00:00"),
        (Resources(time="1-1"), "less than --time 1-1", "--partition mixed"),
    ],
)
def test_what_the_partition_does_not_have(resources: Resources, words: str, remedy: str) -> None:
    (refusal,) = solved(resources).refusals
    assert words in refusal.what
    assert not remedy or remedy in map(str, refusal.remedies)


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
