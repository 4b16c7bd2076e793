"""Cost model of large jobs for file server and rendezvous: docs/measurements/scale.md.

Pure arithmetic on constants that were measured on up to four nodes, and with up to 2,048 simulated
ranks. Bytes are counts; seconds are estimates, and where no real cluster of that size was at hand
they say which of two ways is shorter, not when a job will start.
"""

from __future__ import annotations

from ..contract.log_text import human_size

MEGA = 10**6
# docs/measurements/images-on-nodes.md, 2026-11-26, one node and rank, image of 487 MB
TOUCHED = 162 / 487  # of the image: read until the first step
BROADCAST = 487 / 13.2  # MB/s, on two nodes: by sbcast, less its one hop
ONE_SERVER = 200.0  # MB/s of a server, for all nodes together
PARALLEL = 1500.0  # MB/s, assumed: what several servers give of one file
LINK = 12_500.0  # MB/s, assumed: 100 Gbit/s between nodes
FANOUT = 8  # nodes: sbcast's most and its own choice (MAX_THREADS, file_bcast.c)
# python -m tests.bench.hub, 2026-11-27, 64 to 2,048 simulated ranks: of rank 0's hub, each for
# every two ranks
PAIR = 2.1e-6  # s of CPU
ADDRESSES = 16  # bytes sent, compressed
HELD = 146  # bytes of memory
WARN_SECONDS = 60.0  # of a rendezvous


def touched(size: int) -> float:
    """Return the bytes of an image that one node reads in place, for all of its ranks."""
    return TOUCHED * size


def levels(nodes: int) -> int:
    """Return how many hops sbcast's tree has; the script's node is its root, and gets one too."""
    level, reached = 0, 0
    while reached < nodes:
        level += 1
        reached += FANOUT**level
    return level


def serving(nodes: int, size: int, server: float) -> float:
    """Return the seconds in which a server sends each node its part."""
    return nodes * touched(size) / (server * MEGA)


def sending(nodes: int, size: int) -> float:
    """Return the seconds until one reader has read all and each node has it.

    sbcast sends a block to all nodes before it reads the next one, and a node sends it on to
    eight when it has it: reading, and each level's eight copies, come one after the other.
    """
    return size / MEGA * (1 / BROADCAST + FANOUT * levels(nodes) / LINK)


def pays(nodes: int, size: int, server: float) -> bool:
    """Whether the nodes wait for the server longer than for a copy that it sends once."""
    return nodes > 1 and serving(nodes, size, server) >= sending(nodes, size)


def meeting_in_words(ranks: int) -> str:
    """Return what the Gloo rendezvous of Horovod's ranks costs rank 0, "" where it is not much."""
    pairs = ranks**2
    if PAIR * pairs < WARN_SECONDS:
        return ""
    held, sent = human_size(HELD * pairs), human_size(ADDRESSES * pairs)
    return f"rank 0 needs at least {PAIR * pairs:,.0f} s of CPU and {held}, and sends {sent}"


def in_words(nodes: int, size: int, server: float) -> str:
    """Return what both ways ask of the server."""
    share, rate = touched(size), f"{server:,.0f} MB/s"
    if nodes == 1:
        return f"{human_size(share)} in place"
    together = f"{human_size(nodes * share)} from the server, {serving(nodes, size, server):,.0f} s"
    once = f"copied once: {human_size(size)}, about {sending(nodes, size):,.0f} s"
    return f"{human_size(share)} each in place, {together} at {rate}; {once}"
