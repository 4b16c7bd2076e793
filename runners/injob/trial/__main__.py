"""One rank of the trial: record the node, join the process group, measure, send all to rank 0."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import sys
from dataclasses import asdict
from typing import Any

from .. import interfaces, run_files
from ..rank.usage import readings
from . import frameworks

# Variables by which somebody chose how the ranks meet
CHOSEN = ("HOROVOD_CONTROLLER", "HOROVOD_GLOO_IFACE", "OMP_NUM_THREADS", "NCCL_SOCKET_IFNAME")
# Of the image file:
WHOLE = 64 * 2**20  # up to this size every byte is read; above it, samples
SAMPLES, SAMPLE = 64, 64 * 1024
# A SIF's header and its table of 48 descriptors of 585 bytes lie before this (SIF specification).
TABLE = 32 * 1024


def main(image_path: str, started: int, controller: str) -> None:
    """Run the trial, of `started` ranks; rank 0 writes `result.json` into OUTPUT_DIR."""
    here = look_around()
    framework, problems = frameworks.find(controller)
    if framework is None:
        write(f"rank-{os.getpid()}@{socket.gethostname()}.json", {**here, "problems": problems})
        return
    world = framework.world
    world.init()
    here.update(place(world))
    if world.local_rank() == 0:
        here["image"] = view_of_image(image_path)
    before = readings.traffic()
    speeds = frameworks.measure(framework, world.size())
    carried = readings.growth(before, readings.traffic()) or {}
    here["sent"] = {name: sent for name, (_, sent) in carried.items()}
    here["threads"], here["device"] = framework.threads(), framework.device()
    here["gpu"] = framework.gpu()
    everybody = framework.gather(json.dumps(here).encode() + b"\n")
    if world.rank() == 0:
        ranks = [json.loads(line) for line in everybody.splitlines()]
        facts = {"framework": framework.name, "started": started}
        write("result.json", {**facts, "bandwidth": speeds, "ranks": ranks})
    world.shutdown()


def look_around() -> dict[str, Any]:
    """Return CPUs, limits, variables and interfaces of this rank, before it joins the others."""
    shared_memory = os.statvfs("/dev/shm")
    return {
        "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cpus_of_node": os.cpu_count(),
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "shared_memory": shared_memory.f_bavail * shared_memory.f_frsize,
        "variables": {name: os.environ[name] for name in CHOSEN if name in os.environ},
        "interfaces": [asdict(item) for item in interfaces.interfaces()],
        "ports": [asdict(port) for port in interfaces.ports()],
    }


def place(world: Any) -> dict[str, int]:
    """Return rank and size, global, local and across nodes, as the framework has them."""
    names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    return {name: int(getattr(world, name)()) for name in names}


def view_of_image(path: str) -> dict[str, Any]:
    """Return what this node sees of the file: device, inode, size, time and a digest, and of what.

    A folder has no digest, nor has what cannot be read: then `problem` says why.
    """
    try:
        facts = os.stat(path)
        seen: dict[str, Any] = {
            "path": path,
            "device": facts.st_dev,
            "inode": facts.st_ino,
            "size": facts.st_size,
            "mtime": facts.st_mtime,
        }
        if os.path.isdir(path):
            return {**seen, "problem": "a folder has no digest"}
        digest, of = _digest(path, facts.st_size)
        return {**seen, "sha256": digest, "of": of}
    except OSError as error:
        return {"path": path, "problem": str(error)}


def _digest(path: str, size: int) -> tuple[str, str]:
    """Digest every byte, or the header with its table and samples at equal distances to the end."""
    with open(path, "rb") as file:
        if size <= WHOLE:
            return hashlib.sha256(file.read()).hexdigest(), "every byte"
        digest = hashlib.sha256(file.read(TABLE))
        for number in range(1, SAMPLES + 1):
            file.seek(max(0, size * number // SAMPLES - SAMPLE))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest(), f"header, table and {SAMPLES} samples of {SAMPLE // 1024} KiB"


def write(name: str, value: Any) -> None:
    run_files.write_json(os.path.join(os.environ["OUTPUT_DIR"], name), value, indent=2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
