"""What the kernel and NVIDIA's library tell of a job's use of its node."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.injob import processes
from runners.injob.rank.usage import readings, sampler
from runners.injob.rank.usage.readings import Nvml

STAT = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 {utime} {stime} {cutime} {cstime} 20 0 1 0 1 1 1"


def put(root: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_cpu_time_includes_children_whatever_the_name() -> None:
    ticks = readings.TICKS
    stat = STAT.format(utime=ticks, stime=2 * ticks, cutime=3 * ticks, cstime=4 * ticks)
    assert readings.cpu_seconds(stat) == 10


def test_a_tree_of_processes_is_added_up(tmp_path: Path) -> None:
    ticks, page = readings.TICKS, readings.PAGE
    stat = STAT.format(utime=ticks, stime=0, cutime=0, cstime=0)
    proc = put(
        tmp_path,
        {
            "1/task/1/children": "2 ",
            "1/task/5/children": "3 ",  # started by another thread
            **{f"{pid}/stat": stat for pid in (1, 2, 3)},
            **{f"{pid}/statm": "100 5 1 1 0 1 0" for pid in (1, 2, 3)},
            "2/task/2/children": "99 ",  # it has just ended
        },
    )
    use = readings.of_tree(1, proc)
    assert use == readings.TreeUse(3.0, 15 * page)
    assert readings.of_tree(99, proc) is None


def test_the_own_process_can_be_read() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.tree(os.getpid())
        use = readings.of_tree(os.getpid())
        assert use is not None
        assert use.cpu > 0
        assert use.resident > 1 << 20
    finally:
        child.communicate(b"\n")


V2 = "0::/slurm/job_1/step_0/task_0\n"
V1 = "9:name=systemd:/x\n5:cpu,cpuacct:/y\n4:memory:/slurm/job_1/step_0\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        # The job's limit, above the step's that has none
        (
            V2,
            {
                "slurm/job_1/step_0/memory.max": "max",
                "slurm/job_1/step_0/memory.current": "500",
                "slurm/job_1/memory.max": "1000",
                "slurm/job_1/memory.current": "700",
                "slurm/job_1/memory.stat": "anon 400\ninactive_file 250\n",
                "slurm/memory.max": "max",
            },
            readings.MemoryGroup(1000, 450),
        ),
        # The lowest one counts
        (
            V2,
            {
                "slurm/job_1/memory.max": "1000",
                "slurm/job_1/memory.current": "10",
                "slurm/memory.max": "800",
                "slurm/memory.current": "790",
            },
            readings.MemoryGroup(800, 790),
        ),
        (
            V1,
            {
                "memory/slurm/job_1/step_0/memory.limit_in_bytes": "9223372036854771712",
                "memory/slurm/job_1/step_0/memory.usage_in_bytes": "5",
                "memory/slurm/job_1/memory.limit_in_bytes": "4096",
                "memory/slurm/job_1/memory.usage_in_bytes": "3000",
                "memory/slurm/job_1/memory.stat": "total_inactive_file 1000\n",
            },
            readings.MemoryGroup(4096, 2000),
        ),
        (V2, {"slurm/job_1/memory.max": "max", "slurm/job_1/memory.current": "1"}, None),
        ("", {}, None),
    ],
)
def test_the_limit_of_memory_is_the_lowest_cgroups(
    tmp_path: Path, groups: str, files: dict[str, str], expected: readings.MemoryGroup | None
) -> None:
    proc = put(tmp_path / "proc", {"self/cgroup": groups})
    root = put(tmp_path / "cgroup", {"cgroup.procs": "", **files})
    assert readings.memory_group(proc, root) == expected


def test_without_a_cgroup_the_limit_is_slurms_or_the_nodes(tmp_path: Path) -> None:
    proc = put(tmp_path, {"meminfo": "MemTotal:       2048 kB\nMemFree: 1 kB\n"})
    group = readings.MemoryGroup(7, 5)
    assert readings.memory_limit(group, {"SLURM_MEM_PER_NODE": "4"}, proc) == (7, "cgroup")
    assert readings.memory_limit(None, {"SLURM_MEM_PER_NODE": "4"}, proc) == (4 << 20, "slurm")
    assert readings.memory_limit(None, {"SLURM_MEM_PER_NODE": "0"}, proc) == (2 << 20, "node")
    assert readings.memory_limit(None, {}, str(tmp_path / "nothing")) is None


class Library:
    """Stands in for libnvidia-ml.so.1: three GPUs, of which the last is another job's."""

    def __init__(self, **failing: int) -> None:
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.failing.get(name) or getattr(self, f"_{name}")(*arguments)

    def _nvmlInit_v2(self) -> int:
        return 0

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 3
        return 0

    def _nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return 4 if index == 2 else 0  # NVML_ERROR_NO_PERMISSION

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, length: int) -> int:
        buffer.value = b"GPU-%d" % handle.value
        return 0

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, length: int) -> int:
        buffer.value = b"H200"
        return 0

    def _nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        rates._obj[0], rates._obj[1] = 25 * handle.value, 3
        return 0

    def _nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj[0], memory._obj[1], memory._obj[2] = 1 << 37, 1 << 36, 1 << 36
        return 0

    def _nvmlDeviceGetPowerUsage(self, handle: Any, power: Any) -> int:
        power._obj.value = 350_500
        return 0

    def _nvmlDeviceGetClockInfo(self, handle: Any, kind: int, clock: Any) -> int:
        clock._obj.value = 1500
        return 0

    def _nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int, clock: Any) -> int:
        clock._obj.value = 1980
        return 0


def test_nvml_tells_use_memory_power_and_clock() -> None:
    nvml = Nvml({}, Library())
    assert nvml.names == {"GPU-1": "H200", "GPU-2": "H200"}
    seen = nvml.sample()
    assert [*seen["GPU-1"].values()] == [0.25, 1 << 36, 1 << 37, 350.5, 1500, 1980]
    assert seen["GPU-2"]["use"] == 0.5


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("1", {"GPU-2"}), ("GPU-1", {"GPU-1"}), ("0,1", {"GPU-1", "GPU-2"}), ("NoDevFiles", set())],
)
def test_only_visible_gpus_are_the_jobs(visible: str, expected: set[str]) -> None:
    assert set(Nvml({"CUDA_VISIBLE_DEVICES": visible}, Library()).handles) == expected


def test_what_a_gpu_does_not_tell_is_none_and_not_zero() -> None:
    three = 3  # NVML_ERROR_NOT_SUPPORTED, as of a GPU that MIG divides
    library = Library(nvmlDeviceGetUtilizationRates=three, nvmlDeviceGetPowerUsage=three)
    seen = Nvml({}, library).sample()["GPU-1"]
    assert (seen["use"], seen["power"], seen["clock"]) == (None, None, 1500)


def test_a_driver_that_does_not_answer_is_no_gpu() -> None:
    with pytest.raises(OSError, match="nvmlInit_v2 returned 9"):
        Nvml({}, Library(nvmlInit_v2=9))


@pytest.mark.parametrize(
    ("gpus", "env", "expected"),
    [
        (True, {}, [True, False]),
        (False, {}, [False, False]),
        (False, {"CUDA_VISIBLE_DEVICES": "0,1"}, [True, False]),
        (True, {"CUDA_VISIBLE_DEVICES": "0"}, [True, True]),  # each has its own
        (True, {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_GPUS_PER_TASK": "2"}, [True, True]),
        (False, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, [False, False]),
    ],
)
def test_gpus_are_looked_at_once(gpus: bool, env: dict[str, str], expected: list[bool]) -> None:
    assert [sampler.samples_gpus(gpus, env, first, 2) for first in (True, False)] == expected


def test_the_shims_of_a_node_share_what_sampling_may_cost() -> None:
    def shim(local_rank: int, ranks: int) -> sampler.UseWatch:
        task = SimpleNamespace(local_rank=local_rank, local_size=ranks, size=ranks)
        settings: Any = SimpleNamespace(task=task, workers=1, gpus=False)
        return sampler.UseWatch(settings, 1, print)

    shares = [shim(rank, 4).share for rank in range(4)]
    assert sum(shares) == pytest.approx(sampler.SHARE)
    assert shares[0] > shares[1]
    assert shim(0, 1).share == sampler.SHARE < 0.005


def test_the_structures_are_as_wide_as_nvmls() -> None:
    assert ctypes.sizeof(ctypes.c_uint * 2) == 8  # nvmlUtilization_t
    assert ctypes.sizeof(ctypes.c_ulonglong * 3) == 24  # nvmlMemory_t
