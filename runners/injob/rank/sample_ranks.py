"""What the ranks of this node do now: `python3 RUN/code/injob/rank/sample_ranks.py RUN`.

One line for each: rank, host, state and what the trainer's main thread did within SECONDS: its
share of a CPU, and how often it went to sleep by itself. One that waits in hvd.synchronize() looks
every millisecond whether it may go on; one that sleeps for another reason does not.
"""

from __future__ import annotations

import os
import socket
import sys
import time

SECONDS = 1.0


def main(run_dir: str) -> None:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    trainers = {pid: rank for pid in pids if (rank := _rank(pid, run_dir)) is not None}
    before = {pid: _counts(pid) for pid in trainers}
    time.sleep(SECONDS)
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    for pid, rank in trainers.items():
        (ticks, sleeps), (ticks_before, sleeps_before) = _counts(pid), before[pid]
        busy = (ticks - ticks_before) / os.sysconf("SC_CLK_TCK") / SECONDS
        state = _status(pid, "State") or "gone"
        print(rank, host, state[0], f"{busy:.2f}", sleeps - sleeps_before)


def _rank(pid: int, run_dir: str) -> int | None:
    """Return the rank whose trainer this is: the shim's child, with the shim's own command line."""
    words = _read(f"{pid}/cmdline").split("\0")
    parent = _status(pid, "PPid")
    if run_dir not in words or not parent or words != _read(f"{parent}/cmdline").split("\0"):
        return None
    for line in _read(f"{pid}/environ").split("\0"):
        name, _, value = line.partition("=")
        if name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RUNNER_TASK_RANK"):
            return int(value)
    return None


def _counts(pid: int) -> tuple[int, int]:
    """Return the main thread's clock ticks on a CPU, and how often it went to sleep by itself."""
    thread = f"{pid}/task/{pid}"
    fields = _read(f"{thread}/stat").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) if fields else 0  # utime and stime, proc(5)
    return ticks, int(_status(thread, "voluntary_ctxt_switches") or 0)


def _status(process: int | str, wanted: str) -> str:
    """Return a line of the status of a process, or of a thread."""
    for line in _read(f"{process}/status").splitlines():
        name, _, value = line.partition(":")
        if name == wanted:
            return value.strip()
    return ""


def _read(name: str) -> str:
    try:
        with open(f"/proc/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # it has ended, or is another user's
        return ""


if __name__ == "__main__":
    main(sys.argv[1])
