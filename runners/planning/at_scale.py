"""Cost model of large jobs for file server, Slurm and rendezvous: docs/concepts/scale.md.

Pure arithmetic on constants that were measured on up to four nodes, and with up to 2,048 simulated
ranks. Bytes and requests are counts; seconds are estimates, and where no real cluster of that size
was at hand they say which of two ways is shorter, not when a job will start.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.disk_space import shown
from ..core.model import ImageAccess


@dataclass(frozen=True)
class Constant:
    """A number, its unit, and where it comes from."""

    value: float
    unit: str
    source: str


TABLE = "docs/guides/images-on-nodes.md, 2026-11-26, one node and rank, image of 487 MB"
HUB = "python -m tests.bench.hub, 2026-11-25, 64 to 2,048 simulated ranks"
TOUCHED = Constant(162 / 487, "of the image", f"{TABLE}: read until the first step")
START = Constant(6.4, "s", "make bench, 2026-11-26: first step over Gloo, the image in memory")
ALONE = Constant(162 / 1.5, "MB/s", f"{TABLE}: in place, 7.9 s less the start")
READER = Constant(487 / 4.3, "MB/s", f"{TABLE}: copied whole, 10.7 s less the start")
BROADCAST = Constant(487 / 13.2, "MB/s", f"{TABLE}, but two nodes: by sbcast, less its one hop")
UNPACKING = Constant(487 / 0.6, "MB/s", f"{TABLE}: 0.6 s more than copied")
LINK = Constant(12_500, "MB/s", "assumed: 100 Gbit/s between nodes")
FANOUT = Constant(8, "nodes", "sbcast's most and its own choice: MAX_THREADS, file_bcast.c")
LAUNCH = Constant(0.002, "s per node and step", "SchedMD, big_sys: 15,000 nodes in 30 s")
PAIR = Constant(7.0e-6, "s per two ranks", f"{HUB}: CPU of rank 0's hub")
ADDRESSES = Constant(342, "bytes per two ranks", f"{HUB}: sent by rank 0's hub")
HELD = Constant(2 * 136, "bytes per two ranks", f"{HUB}: memory of rank 0's hub")
# A server's bytes per second for all nodes together.
ONE_SERVER = Constant(200, "MB/s", "the server of docs/guides/images-on-nodes.md")
PARALLEL = Constant(1500, "MB/s", "assumed: what several servers give of one file")
# Job steps by srun: to hold, to copy what sbcast did not, to unpack or to wait for the mount; and
# the ranks. Before sbcast, which one node has no need of, one looks for room.
STEPS = {
    ImageAccess.IN_PLACE: 1,
    ImageAccess.COPIED: 3,
    ImageAccess.UNPACKED: 4,
    ImageAccess.MOUNTED: 3,
}
MEGA = 10**6
WARN_SECONDS = 60.0  # of a rendezvous


def touched(size: int) -> float:
    """Return the bytes of an image that one node reads in place, for all of its ranks."""
    return TOUCHED.value * size


def served(way: ImageAccess, nodes: int, size: int) -> float:
    """Return the bytes that the file server sends."""
    return nodes * touched(size) if way.leaves_shared else float(size)


def steps(way: ImageAccess, nodes: int) -> int:
    """Return the job's steps by srun, without a check of the image's digest."""
    return STEPS[way] + _broadcasts(way, nodes)


def requests(way: ImageAccess, nodes: int) -> int:
    """Return how often slurmctld is asked by launch and script: no more for more nodes.

    A ping, sbatch, one for each step, and sbcast. Following the job adds requests
    (jobs/job_status.py).
    """
    return 2 + steps(way, nodes) + _broadcasts(way, nodes)


def _broadcasts(way: ImageAccess, nodes: int) -> bool:
    return not way.leaves_shared and nodes > 1


def levels(nodes: int) -> int:
    """Return how many hops sbcast's tree has; the script's node is its root, and gets one too."""
    level, reached = 0, 0
    while reached < nodes:
        level += 1
        reached += int(FANOUT.value) ** level
    return level if nodes > 1 else 0


def serving(nodes: int, size: int, server: Constant) -> float:
    """Return the seconds in which a server sends each node its part."""
    return served(ImageAccess.IN_PLACE, nodes, size) / (server.value * MEGA)


def sending(nodes: int, size: int) -> float:
    """Return the seconds until one reader has read all and each node has it; one needs no sbcast.

    sbcast sends a block to all nodes before it reads the next one, and a node sends it on to
    eight when it has it: reading, and each level's eight copies, come one after the other.
    """
    reader = BROADCAST if nodes > 1 else READER
    return size / MEGA * (1 / reader.value + FANOUT.value * levels(nodes) / LINK.value)


def pays(nodes: int, size: int, server: Constant) -> bool:
    """Whether the nodes wait for the server longer than for a copy that it sends once."""
    return nodes > 1 and serving(nodes, size, server) >= sending(nodes, size)


def first_step(way: ImageAccess, nodes: int, size: int, server: Constant) -> float:
    """Return the seconds from the start of a job's script to its first step, less the meeting."""
    launching = LAUNCH.value * nodes * steps(way, nodes)
    if way.leaves_shared:
        alone = touched(size) / (ALONE.value * MEGA)
        return START.value + launching + max(alone, serving(nodes, size, server))
    unpacking = size / (UNPACKING.value * MEGA) if way == ImageAccess.UNPACKED else 0.0
    return START.value + launching + sending(nodes, size) + unpacking


def meeting(ranks: int) -> float:
    """Return the seconds of CPU that rank 0 needs for the Gloo rendezvous of Horovod's ranks."""
    return PAIR.value * ranks**2


def meeting_in_words(ranks: int) -> str:
    """Return what that is, "" where it is not much."""
    if meeting(ranks) < WARN_SECONDS:
        return ""
    passed, held = (shown(each.value * ranks**2) for each in (ADDRESSES, HELD))
    return f"rank 0 needs at least {meeting(ranks):,.0f} s of CPU and {held}, and sends {passed}"


def in_words(nodes: int, size: int, server: Constant) -> str:
    """Return what both ways ask of the server."""
    each, rate = touched(size), f"{server.value:,.0f} MB/s"
    together = f"{shown(nodes * each)} from the server, {serving(nodes, size, server):,.0f} s"
    once = f"copied once: {shown(size)}, about {sending(nodes, size):,.0f} s"
    return f"{shown(each)} each in place, {together} at {rate}; {once}"
