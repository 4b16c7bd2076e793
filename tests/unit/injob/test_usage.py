"""The ranks' reports of what they used: by node, as findings, and as a use_summary."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.contract import node_use, use_summary
from runners.contract.node_use import NodeUse, RankUse
from runners.contract.run_files import USE
from runners.core.job_record import JobPaths
from runners.injob import records
from runners.monitoring import resource_use

from .. import sentences
from . import shim
from .test_usage_readings import Library

GB = 10**9
GPU = {
    "name": "H200",
    "use_mean": 0.9,
    "use_peak": 1.0,
    "memory_peak_bytes": 70 * GB,
    "memory_total_bytes": 140 * GB,
    "power_mean_watts": 500.0,
    "power_peak_watts": 690.0,
    "clock_mean_mhz": 1700.0,
    "clock_highest_mhz": 1980,
}


def report(host: str = "n1", cpus: str = "ff", **more: Any) -> dict[str, Any]:
    return {
        "host": host,
        "workers": 1,
        "seconds": 100.0,
        "sampler_seconds": 0.1,
        "cpu_seconds": 150.0,
        "cpus": cpus,
        "memory": {"mean": 1.0 * GB, "peak": 2.0 * GB},
        "gpus": {},
        **more,
    }


OF_NODE = {"limit": 8 * GB, "limit_of": "slurm", "group_peak": None}


def job(*reports: dict[str, Any]) -> list[NodeUse]:
    return node_use.of_nodes(dict(enumerate(reports)))


def test_ranks_are_added_up_by_node() -> None:
    gpus = {"GPU-1": GPU}
    made = job(
        report(node=OF_NODE, gpus=gpus), report(gpus=gpus), report("n2", "f", seconds=50.0)
    )  # fmt: skip
    first, second = made
    assert (first.host, first.ranks, first.cpus, first.cpus_used) == ("n1", 2, 8, 3.0)
    assert (first.memory_peak_bytes, first.memory_limit_bytes) == (4 * GB, 8 * GB)
    assert first.gpus == gpus, "a GPU that two ranks see is one"
    assert first.sampler_share == pytest.approx(0.002)
    assert [usage.cpus for usage in first.of_ranks] == [4, 4], "they share eight"
    assert (second.host, second.cpus, second.memory_limit_bytes) == ("n2", 4, None)


def test_what_one_rank_does_not_know_is_not_known_of_the_node() -> None:
    (node,) = job(report(), report(cpu_seconds=None))
    assert node.cpus_used is None
    cells, headers = use_summary.rows([node])
    shown = dict(zip(headers, cells[0]))
    for name in ("CPUs used", "GPUs"):
        assert shown[name] == "not measured"


def node(**more: Any) -> NodeUse:
    ranks = (RankUse(0, 1, 16, 95.0, 1.0 * GB),)
    return replace(NodeUse("n1", 1, 100.0, 16, 95.0, of_ranks=ranks), **more)


def busy(share: float, memory: int = 70 * GB) -> dict[str, Any]:
    return {**GPU, "use_mean": share, "memory_peak_bytes": memory}


FEWER = {use_summary.IDLE_CPUS: {"cpus-per-task": 2}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, FEWER),
        ({"seconds": 59.0}, {}),
        ({"of_ranks": (RankUse(0, 1, 16, 500.0, None),)}, {}),
        ({"of_ranks": (RankUse(0, 1, 2, 10.0, None),)}, {}),
        ({"of_ranks": (RankUse(0, 4, 16, 390.0, None),)}, FEWER),
        ({"of_ranks": (RankUse(0, 1, 16, None, None),)}, {}),
        ({"gpus": {"GPU-1": busy(0.07)}}, {use_summary.IDLE_GPU: {}}),  # they could load its data
    ],
)
def test_a_rank_with_idle_cpus_is_found(
    seen: dict[str, Any], expected: dict[str, dict[str, int]]
) -> None:
    assert {
        finding.id: finding.options for finding in use_summary.findings([node(**seen)])
    } == expected


@pytest.mark.parametrize(
    ("gpus", "ranks", "options", "words"),
    [
        ([busy(0.0, 0), busy(0.95)], 1, {"ntasks-per-node": 2}, "1 held no data: 1 ranks"),
        ([busy(0.0, 0), busy(0.95)], 2, {"gpus-per-node": 1}, "1 held no data: 2 ranks"),
        ([busy(0.04)], 1, {}, "were idle (use 4 % of the time): they wait for data"),
    ],
)
def test_an_idle_gpu_is_found_with_what_fixes_it(
    gpus: list[dict[str, Any]], ranks: int, options: dict[str, int], words: str
) -> None:
    seen = node(gpus=dict(enumerate(gpus)), ranks=ranks, of_ranks=())
    (finding,) = use_summary.findings([seen])
    assert (finding.id, finding.options) == (use_summary.IDLE_GPU, options)
    assert words in use_summary.sentence(finding)
    assert not use_summary.findings([replace(seen, gpus={"GPU-1": GPU})])
    assert not use_summary.findings([replace(seen, gpus={"GPU-1": {**GPU, "use_mean": None}})])


@pytest.mark.parametrize(
    ("limit_of", "peak", "group", "options"),
    [
        ("slurm", 7.5, None, {"mem": "10G"}),
        ("cgroup", 1, 7.5, {"mem": "10G"}),
        ("cgroup", 7.5, 1, None),  # shared pages count once in the group
        ("node", 7.5, None, {}),
        ("slurm", 5, None, None),
    ],
)
def test_memory_near_its_limit_is_found(
    limit_of: str, peak: float, group: float | None, options: dict[str, str] | None
) -> None:
    seen = node(
        of_ranks=(),
        memory_peak_bytes=peak * 2**30,
        memory_group_peak_bytes=group and group * 2**30,
        memory_limit_bytes=8 * 2**30,
        memory_limit_of=limit_of,
    )
    found = use_summary.findings([seen, replace(seen, host="n2")])
    assert [finding.options for finding in found] == ([] if options is None else [options])
    if found:
        assert use_summary.sentence(found[0]).startswith("n1 and 1 more nodes: 7.5 GiB of 8.0 GiB")


def test_the_table_of_the_log() -> None:
    seen = node(
        gpus={"GPU-1": GPU},
        memory_peak_bytes=2.0 * GB,
        memory_limit_bytes=8 * GB,
    )
    many = [replace(seen, host=f"n{number}") for number in range(20)]
    lines = list(use_summary.lines(many, use_summary.findings(many), "runs/a-1/use.json"))
    assert re.split("  +", lines[2]) == [
        "runner:", "n0", "1", "0.9 of 16", "2.0 GB of 8.0 GB",
        "90 % of 1", "70.0 GB of 140 GB", "500 W", "1700 of 1980 MHz",
    ]  # fmt: skip
    assert lines[-2] == "runner:   and 4 more nodes: runs/a-1/use.json"
    assert lines[-1].startswith("runner: n0 and 19 more nodes: rank 0 used 0.9 of its 16 CPUs")
    assert lines[-1].endswith("; try: --cpus-per-task 2")


def test_a_record_is_read_back_and_another_version_refused(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert resource_use.of_run(paths) is None
    made = job(report(node=OF_NODE), report("n2"))
    (tmp_path / "result.json").write_text('{"accuracy": 0.5}')
    value = node_use.as_value(made, use_summary.findings(made))
    records.keep(str(tmp_path), USE, value, in_result="use")
    read = resource_use.of_run(paths)
    assert read is not None
    assert [node_usage.host for node_usage in read.nodes] == ["n1", "n2"]
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "accuracy": 0.5,
        "use": json.loads((tmp_path / "use.json").read_text()),
    }
    assert resource_use.measured(read)["memory_peak_gb_per_node"] == 2.0
    for damaged, id in (
        ("[]", "json-not-an-object"),
        ('{"version": 1, "nodes": []}', "use-unreadable"),
        ('{"version": 2, "nodes": [{}]}', "use-unreadable"),
    ):
        paths.use.write_text(damaged)
        with sentences.raises(id):
            resource_use.of_run(paths)


# Rank 0 waits for what others used no longer than 10 s: the first to be done waits for the other.
BURN = """
import os, resource, sys, time
done = os.path.join(os.path.dirname(os.path.abspath(__file__)), "done")
block = bytearray(50 << 20)
block[::4096] = b"x" * len(block[::4096])
while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 0.4:
    pass
os.makedirs(os.path.join(done, os.environ["RANK"]))
while len(os.listdir(done)) < 2:
    time.sleep(0.01)
used = resource.getrusage(resource.RUSAGE_SELF)
print(sum(used[:2]), used.ru_maxrss << 10)
"""


def test_the_shim_counts_what_a_trainer_counts_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BURN)
    code, out = shim.run(tmp_path, *shim.TWO)
    assert code == 0, out[-2000:]
    own = [list(map(float, pair)) for pair in re.findall(r"\| ([\d.]+) (\d+)$", out, re.M)]
    record = json.loads((tmp_path / "use.json").read_text())
    (node,) = record["nodes"]
    assert (node["host"], node["ranks"]) == (os.uname().nodename, 2)
    assert node["cpu_seconds"] == pytest.approx(sum(cpu for cpu, _ in own), abs=0.15)
    assert node["memory_peak_bytes"] == pytest.approx(sum(peak for _, peak in own), rel=0.1)
    assert node["gpus"] is None
    assert record["sampler_share"] < 0.02
    assert "runner: what the job used, by node" in out
    assert "not measured" in out


def test_gpus_of_a_rank_are_averaged_over_samples() -> None:
    from runners.injob.rank.usage import sampler
    from runners.injob.rank.usage.readings import Nvml

    task = SimpleNamespace(local_rank=0, local_size=1, size=1)
    settings: Any = SimpleNamespace(task=task, workers=1, gpus=True)
    one = sampler.UseWatch(settings, os.getpid(), print)
    nvml = Nvml({"CUDA_VISIBLE_DEVICES": "1"}, Library())
    one._sample(nvml)
    one._sample(nvml)
    (gpu,) = one.report()["gpus"].values()
    assert (gpu["use_mean"], gpu["power_mean_watts"], gpu["name"]) == (0.5, 350.5, "H200")
