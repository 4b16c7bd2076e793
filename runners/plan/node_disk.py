"""A node's own disk: whether a job can bring something there, and how much it is taken to hold."""

from __future__ import annotations

from ..core.model import Site
from ..schedulers import SCHEDULERS
from . import partition
from .case import Case
from .log import Log

UNKNOWN_DISK = 20 * 10**9  # bytes that a node is taken to have room for where Slurm does not say
OF_SITE = "node_local"  # the key of a profile's `paths`


def root(site: Site) -> str:
    """Return the site's folder on a node's own disk, "" to find one in the job."""
    return site.profile.paths.get(OF_SITE, "") if site.profile else ""


def cannot(log: Log) -> str:
    """Return why nothing can be brought there, "" when it can."""
    scheduler, runtime = log.chosen("scheduler"), log.chosen("runtime")
    if SCHEDULERS[scheduler].STEPS is None:
        return f"{scheduler} has no way to run something once on each node that is known here"
    if runtime in ("shifter", "podman-hpc"):
        return f"{runtime} is not known to see a node's own disk"
    return ""


def too_small(size: int, case: Case) -> str:
    """Return what so many bytes are more than, "" when they fit as far as is known."""
    there = partition.of(case)
    disk = there.disk_mb * 2**20 if there else 0
    if size <= (disk or UNKNOWN_DISK):
        return ""
    return f"a node's disk, {disk / 10**9:.0f} GB" if disk else "every node has room for"
