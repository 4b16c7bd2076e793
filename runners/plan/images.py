"""How the image reaches the nodes: read where it lies, sent to their own disks, or unpacked there.

From a file that is read where it lies a node gets what its ranks touch, once for all of them, and
unpacks that in memory as they touch it. Sending it reads all of it, once for all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.model import ImageInfo, JobSpec, Site
from . import node_disk
from .choices import Notes
from .execution import CONTAINERS

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
IN_PLACE, FILE, FOLDER = "", "file", "folder"
SHOWN = {
    IN_PLACE: "where it lies",
    FILE: "from each node's own disk",
    FOLDER: "unpacked on each node's own disk",
}
ASKED = {"node-local": FILE, "unpack": FOLDER}


@dataclass(frozen=True)
class Choice:
    """A form, and why."""

    form: str
    reason: str


def choose(
    spec: JobSpec, site: Site, image: ImageInfo, scheduler: str, runtime: str, notes: Notes
) -> str:
    """Note how the image is read; return "" for in place, "file" or "folder" for staged."""
    asked, why = spec.stage_image, _cannot(image, scheduler, runtime)
    if asked == "none":
        best = Choice(IN_PLACE, why) if why else _worth_it(spec, site, image)
        if best.form:
            advice = f"--stage-image auto would stage it: {best.reason}"
            notes.choose("image read", SHOWN[IN_PLACE], advice, MEASURED)
        return IN_PLACE
    if asked != "auto":
        why = why or (_no_squashfs(image) if asked == "unpack" else "")
        if why:
            notes.refuse(f"--stage-image {asked}: {why}", "", "--stage-image none")
        notes.choose("image read", SHOWN[ASKED[asked]], "as asked")
        return ASKED[asked]
    found = Choice(IN_PLACE, why) if why else _worth_it(spec, site, image)
    notes.choose("image read", SHOWN[found.form], found.reason, "" if why else MEASURED)
    return found.form


def _cannot(image: ImageInfo, scheduler: str, runtime: str) -> str:
    why = node_disk.cannot(scheduler, runtime)
    if why:
        return why
    if runtime not in CONTAINERS:
        return f"--runtime {runtime} reads no image file"
    return "" if image.size else f"{image.path.name} is a folder, and only a file is sent"


def _no_squashfs(image: ImageInfo) -> str:
    return "" if image.offset else f"{image.path.name} holds no squashfs that could be unpacked"


def _worth_it(spec: JobSpec, site: Site, image: ImageInfo) -> Choice:
    """Decide from size, nodes, file system and room."""
    nodes, kind = spec.resources.nodes, image.filesystem or "a file system of an unknown kind"
    form, why = FILE, ""
    if site.unpacks and image.offset:
        form, why = FOLDER, f"{site.unpacks}: each rank would unpack the whole image for itself"
    elif kind not in NODES:
        return Choice(IN_PLACE, f"it is on {kind}, not known as a file system of many nodes")
    elif nodes < NODES[kind]:
        return Choice(IN_PLACE, f"{nodes} nodes on {kind}: {_asked(nodes, image)}")
    size = image.size * (1 + UNPACKED * (form == FOLDER))
    small = node_disk.too_small(size, spec, site)
    if small:
        return Choice(IN_PLACE, f"{size / 10**9:.1f} GB is more than {small}")
    return Choice(form, why or f"{nodes} nodes on {kind}: {_asked(nodes, image)}")


def _asked(nodes: int, image: ImageInfo) -> str:
    """Return in words what the nodes together would ask the file system for."""
    all_of_it, touched = image.size / 10**9, nodes * TOUCHED * image.size / 10**9
    return f"{touched:.1f} GB at the start in place, {all_of_it:.1f} GB by one reader if sent"
