"""What the machine answers when it is asked once."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from runners.core import shell
from runners.core.model import MpiFlavour
from runners.core.site import Mpirun, NodeGroup, Partition
from runners.schedulers import slurm
from runners.sites import probe, slurm_nodes

SINFO = """\
cpu*|2|32|(null)|1-00:00:00|0|(null)
gpu|3|64|gpu:A100:4(S:0-1)|2-00:00:00|960000|x86_64,gpu
gpu|1|48|gpu:V100:2,nvme:1|2-00:00:00|480000+|x86_64
mig|1|64|gpu:a100_1g.5gb:7|infinite|0
"""
MIG = (("a100_1g.5gb", 7),)


def test_partitions() -> None:
    assert slurm_nodes.parse_partitions(SINFO) == (
        Partition("cpu", 2, 32, (), "1-00:00:00", True, groups=(NodeGroup(2, cpus=32),)),
        Partition(
            "gpu",
            4,
            48,
            (("A100", 4), ("V100", 2)),
            "2-00:00:00",
            disk_mb=480000,
            groups=(
                NodeGroup(3, (("A100", 4),), ("x86_64", "gpu"), 64),
                NodeGroup(1, (("V100", 2),), ("x86_64",), 48),
            ),
        ),
        Partition("mig", 1, 64, MIG, "infinite", groups=(NodeGroup(1, MIG, cpus=64),)),
    )


@pytest.mark.parametrize("text", ["slurm is down for maintenance", "a|b|c|d|e|f", "a|1"])
def test_partitions_in_another_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        slurm_nodes.parse_partitions(text)


def test_settings() -> None:
    text = (
        "Configuration data as of 2026-11-21T14:00:00\n"
        "AccountingStorageHost   = (null)\nClusterName             = kit\n"
        "SLURM_VERSION           = 24.11.5\nTaskPlugin = affinity,cgroup\n"
    )
    found = slurm.parse_config(text)
    assert found["ClusterName"] == "kit"
    assert found["AccountingStorageHost"] == ""
    assert found["TaskPlugin"] == "affinity,cgroup"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpirun (Open MPI) 5.0.7\n\nReport bugs to ...", Mpirun(MpiFlavour.OPEN_MPI, "5.0.7")),
        ("mpirun (Open MPI) 5.0.7rc2", Mpirun(MpiFlavour.OPEN_MPI, "5.0.7rc2")),
        ("Open MPI v4.1.4\n", Mpirun(MpiFlavour.OPEN_MPI, "4.1.4")),
        ("HYDRA build details:\n    Version:          4.0.2\n", Mpirun(MpiFlavour.MPICH, "4.0.2")),
        ("MPICH Version:      4.2.1\n", Mpirun(MpiFlavour.MPICH, "4.2.1")),
        ("sh: 1: mpirun: not found", None),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 1",
            Mpirun(MpiFlavour.INTEL_MPI, "2021.10"),
        ),
        ("mpirun: no idea", None),
    ],
)
def test_mpirun(text: str, expected: Mpirun | None) -> None:
    assert probe.parse_mpirun(text) == expected


def test_what_hangs_is_left_out_and_the_rest_is_there() -> None:
    began = time.monotonic()
    slow, quick, absent = shell.together(
        [["sleep", "30"], [sys.executable, "-c", "print('here')"], ["no-such-command"]], 2
    )
    assert time.monotonic() - began < 5
    assert (slow.code, slow.err) == (124, "no answer within 2 s")
    assert quick.out == "here\n"
    assert absent.code == 127


def test_only_variables_that_matter_are_kept() -> None:
    env = {"NCCL_DEBUG": "INFO", "USER": "ada", "USERNAME": "ada", "SECRET": "x", "OMP_X": "1"}
    assert probe.that_matters(env) == {"NCCL_DEBUG": "INFO", "USER": "ada", "OMP_X": "1"}


@pytest.mark.parametrize(
    ("variables", "cpus"),
    [
        ({}, 0),
        ({"SLURM_JOB_CPUS_PER_NODE": "4(x2),2"}, 2),
        ({"SLURM_JOB_CPUS_PER_NODE": "1(x2)", "SLURM_CPUS_ON_NODE": "8"}, 1),
        ({"SLURM_CPUS_ON_NODE": "8"}, 8),
        ({"SLURM_CPUS_ON_NODE": "8", "SLURM_OVERCOMMIT": "1"}, 0),
    ],
)
def test_the_cpus_of_the_surrounding_job(variables: dict[str, str], cpus: int) -> None:
    assert probe.allocated_cpus(variables) == cpus


@pytest.mark.parametrize(
    ("quota", "share"), [("max 100000", 1.0), ("50000 100000", 0), ("900000000 100000", 1.0)]
)
def test_the_quota_of_a_container_bounds_the_cpus(
    quota: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(probe, "CPU_QUOTA", str(tmp_path / "cpu.max"))
    assert probe.probe().cpus == max(1, share * len(os.sched_getaffinity(0)))
