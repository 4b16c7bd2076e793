"""Samples what one rank's trainer uses, in a thread of its shim; at its end the kernel's own count.

Each shim samples its own trainer. The shim of a node's first rank also samples what all ranks of
the node share.

It is a thread because a broken GPU may never answer, and the shim has signals to pass on. It never
ends by itself: small images lack the libgcc that Python needs for that, and the shim ends by
os._exit (see supervise.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from . import readings

if TYPE_CHECKING:
    import resource

    from ..gate_settings import GateSettings
    from .readings import Nvml

SECONDS_BETWEEN_SAMPLES = 5.0
FIRST_PAUSE = 0.5
# Of one CPU, for all shims of a node together: half for the first, which samples the node too.
SHARE = 0.003
SECONDS_BETWEEN_REPORTS = 60.0
SECONDS_FOR_EACH_RANK = 0.05  # of a report, which rank 0 has to read: 3,000 ranks report less often


@dataclass
class Series:
    """The mean and the peak of the values that were added."""

    total: float = 0.0
    count: int = 0
    peak: float | None = None

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total, self.count = self.total + value, self.count + 1
            self.peak = value if self.peak is None else max(self.peak, value)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


def _of_gpu(name: str, series: Mapping[str, Series]) -> dict[str, Any]:
    return {
        "name": name,
        "use_mean": series["use"].mean,
        "use_peak": series["use"].peak,
        "memory_peak_bytes": series["memory"].peak,
        "memory_total_bytes": series["memory_total"].peak,
        "power_mean_watts": series["power"].mean,
        "power_peak_watts": series["power"].peak,
        "clock_mean_mhz": series["clock"].mean,
        "clock_highest_mhz": series["clock_highest"].peak,
    }


class UseWatch:
    """Samples what the process `child` uses; `tell` sends a report.

    The shims of a node divide SHARE among them; that of its first rank samples the node too.
    """

    def __init__(
        self, settings: GateSettings, child: int, tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self.task, self.workers = settings.task, settings.workers
        self.child, self.tell = child, tell
        self.first, ranks = self.task.local_rank == 0, self.task.local_size
        self.gpus = samples_gpus(settings.gpus, os.environ, self.first, ranks)
        self.share = SHARE if ranks == 1 else SHARE / 2 / (1 if self.first else ranks - 1)
        self.pause = SECONDS_BETWEEN_REPORTS + SECONDS_FOR_EACH_RANK * self.task.size
        self.began = self.told = time.monotonic()
        self.ended: float | None = None
        self.own = 0.0  # CPU seconds of the sampling itself
        self.cpu: float | None = None
        self.resident, self.group = Series(), Series()
        self.limit: tuple[int, str] | None = None
        self.gpu_names: Mapping[str, str] = {}  # by UUID, as the series of what they tell
        self.series: dict[str, dict[str, Series]] = {}

    def start(self) -> None:
        """Sample from now on."""
        with contextlib.suppress(RuntimeError):  # no more threads are allowed: not measured
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the shim
        try:
            self._sample_on()
        except Exception as error:  # whatever it is, it is not the training's end
            print(f"runner: the use of the node is no longer sampled: {error!r}", flush=True)
        while True:
            time.sleep(SECONDS_BETWEEN_REPORTS)

    def _sample_on(self) -> None:
        nvml = _open_nvml() if self.gpus else None
        pause = FIRST_PAUSE
        while True:
            self.own = time.thread_time()
            # No sooner than the sampling's own share allows.
            due = self.began + self.own / self.share
            time.sleep(max(pause, due - time.monotonic()))
            pause = min(pause * 2, SECONDS_BETWEEN_SAMPLES)
            if self.ended is None:
                self._sample(nvml)

    def _sample(self, nvml: Nvml | None) -> None:
        use = readings.of_tree(self.child)
        if use is not None and self.ended is None:
            self.cpu = max(use.cpu, self.cpu or 0.0)
            self.resident.add(use.resident)
        if self.first:
            self._sample_node()
        if nvml is not None:
            self.gpu_names = nvml.names
            for uuid, seen in nvml.sample().items():
                series = self.series.setdefault(uuid, {name: Series() for name in seen})
                for name, value in seen.items():
                    series[name].add(value)

    def _sample_node(self) -> None:
        group = readings.memory_group()
        self.limit = readings.memory_limit(group, os.environ)
        self.group.add(group.used if group else None)

    def poll(self) -> None:
        """Send a report, if it is time to."""
        if time.monotonic() - self.told >= self.pause:
            self._tell()

    def waited_for(self) -> int:
        """Wait for the child, which has ended, and report what it used; return its status."""
        _, status, used = os.wait4(self.child, 0)
        self._end(used)
        self._tell()
        return status

    def _tell(self) -> None:
        self.told = time.monotonic()
        self.tell({"host": self.task.host, "workers": self.workers, **self.report()})

    def _end(self, used: resource.struct_rusage) -> None:
        """Note the kernel's count for the trainer that has ended, and its children."""
        self.ended = time.monotonic()
        self.cpu = max(used.ru_utime + used.ru_stime, self.cpu or 0.0)
        largest = used.ru_maxrss << 10  # of one process
        self.resident.peak = max(largest, self.resident.peak or 0)
        if self.first:
            self._sample_node()

    def report(self) -> dict[str, Any]:
        """Return what is known so far, as JSON."""
        cpus = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        values = {
            "seconds": (self.ended or time.monotonic()) - self.began,
            "sampler_seconds": self.own,
            "cpu_seconds": self.cpu,
            "cpus": f"{cpus:x}",
            "memory": {"mean": self.resident.mean, "peak": self.resident.peak},
            "gpus": {
                uuid: _of_gpu(self.gpu_names[uuid], series)
                for uuid, series in [*self.series.items()]
            },
        }
        return {**values, "node": self._of_node()} if self.first else values

    def _of_node(self) -> dict[str, Any]:
        limit, source = self.limit or (None, "")
        return {"limit": limit, "limit_of": source, "group_peak": self.group.peak}


def samples_gpus(gpus: bool, env: Mapping[str, str], first: bool, ranks: int) -> bool:
    """Whether this shim samples GPUs: the first of a node does, and each whose rank has its own.

    GPUs for which the job did not ask are other jobs'.
    """
    visible = env.get("CUDA_VISIBLE_DEVICES", "")
    if visible in ("-1", "NoDevFiles"):
        return False
    if first:
        return gpus or bool(visible)
    own = "SLURM_GPUS_PER_TASK" in env or len(visible.split(",")) < ranks
    return bool(visible) and own


def _open_nvml() -> Nvml | None:
    try:
        return readings.Nvml(os.environ)
    except (ImportError, OSError, AttributeError):  # no ctypes, library, driver; an old library
        return None
