"""How the image reaches the nodes: read where it lies, sent to their own disks, or unpacked there.

From a file that is read where it lies a node gets what its ranks touch, once for all of them, and
unpacks that in memory as they touch it. Sending it reads all of it, once for all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.model import ImageInfo
from ..core.remedy import change
from . import node_disk
from .case import Case
from .execution import CONTAINERS
from .log import Log

TOUCHED = 0.3  # the part of a file that a trainer reads until its first step
UNPACKED = 4  # times the size of the file
MEASURED = (
    "python -m tests.bench.distribution: of 577 MB a node reads 177 MB until torch_mnist's first "
    "step, with 1 rank or 4; sbcast reads all, once; unpacking takes longer than it saves a rank"
)
# Kinds of file systems by how many nodes may ask at once before sending pays. Of one server 16
# nodes ask five times the file, while sbcast's one reader gets a part of its speed. The others
# have several servers, and one reader gets less of what they can. Reckoned: with 4 nodes, the most
# that was measured, in place is ready first.
ONE_SERVER, PARALLEL = 16, 128
NODES = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "fuse.sshfs"), ONE_SERVER),
    **dict.fromkeys(("lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "pvfs2"), PARALLEL),
}
IN_PLACE, SENT, UNPACK = "none", "node-local", "unpack"
FORMS = {"": "", IN_PLACE: "", SENT: "file", UNPACK: "folder"}  # what lies on a node's disk then


@dataclass(frozen=True)
class Best:
    """A way for --stage-image, and why."""

    way: str
    reason: str


def choose(case: Case, log: Log) -> None:
    """Choose how the image is read: in place, sent to the nodes' own disks, or unpacked there."""
    asked, why = case.spec.stage_image, _cannot(case.image, log)
    if asked in (SENT, UNPACK):
        why = why or (_no_squashfs(case.image) if asked == UNPACK else "")
        if why:
            log.refuse(f"--stage-image {asked}: {why}", "", change(stage_image="none"))
        log.choose("stage-image", asked, case.why("stage-image"))
        return
    best = Best(IN_PLACE, why) if why else _worth_it(case)
    if asked == "auto":
        log.choose("stage-image", best.way, best.reason, "" if why else MEASURED)
    elif best.way != IN_PLACE:
        advice = f"--stage-image auto would stage it: {best.reason}"
        log.choose("stage-image", IN_PLACE, advice, MEASURED)


def _cannot(image: ImageInfo, log: Log) -> str:
    why, runtime = node_disk.cannot(log), log.chosen("runtime")
    if why:
        return why
    if runtime not in CONTAINERS:
        return f"--runtime {runtime} reads no image file"
    return "" if image.size else f"{image.path.name} is a folder, and only a file is sent"


def _no_squashfs(image: ImageInfo) -> str:
    return "" if image.offset else f"{image.path.name} holds no squashfs that could be unpacked"


def _worth_it(case: Case) -> Best:
    """Decide from size, nodes, file system and room."""
    spec, site, image = case.spec, case.site, case.image
    nodes, kind = spec.resources.nodes, image.filesystem or "a file system of an unknown kind"
    way, why = SENT, ""
    if site.unpacks and image.offset:
        way, why = UNPACK, f"{site.unpacks}: each rank would unpack the whole image for itself"
    elif kind not in NODES:
        return Best(IN_PLACE, f"it is on {kind}, not known as a file system of many nodes")
    elif nodes < NODES[kind]:
        return Best(IN_PLACE, f"{nodes} nodes on {kind}: {_asked(nodes, image)}")
    size = image.size * (1 + UNPACKED * (way == UNPACK))
    small = node_disk.too_small(size, case)
    if small:
        return Best(IN_PLACE, f"{size / 10**9:.1f} GB is more than {small}")
    return Best(way, why or f"{nodes} nodes on {kind}: {_asked(nodes, image)}")


def _asked(nodes: int, image: ImageInfo) -> str:
    """Return in words what the nodes together would ask the file system for."""
    all_of_it, touched = image.size / 10**9, nodes * TOUCHED * image.size / 10**9
    return f"{touched:.1f} GB at the start in place, {all_of_it:.1f} GB by one reader if sent"
