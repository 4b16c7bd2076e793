"""Staging: what is copied to node-local disks, and files that nodes cannot access.

From a file that is read where it lies a node gets what its ranks touch, once for all of them, and
unpacks that in memory as they touch it. Sending it reads all of it, once for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core import quoting
from ..core.model import DataAccess, ImageAccess, ImageInfo, JobSpec, RuntimeName
from ..core.plan import ChoiceId, Launching, Staging
from ..core.remedy import Remedy, change, command
from ..core.site import Site
from ..runtimes import FILES, STORES
from ..schedulers import SCHEDULERS, capabilities
from . import cost_model, partition
from .case import Case, DecisionLog, JobResources, Start
from .cost_model import ONE_SERVER, PARALLEL

UNKNOWN_DISK = 20 * 10**9  # bytes that a node is taken to have room for where Slurm does not say
OF_SITE = "node_local"  # the key of a profile's `paths`
UNPACKED_FACTOR = 4  # an unpacked image is so many times the size of its file
MEASURED_IMAGE = (
    "docs/measurements/images-on-nodes.md: of 487 MB a node reads 162 MB until torch_mnist's first "
    "step, with 1 rank or 4; sbcast reads all, once; unpacking takes longer than it saves a rank; "
    "estimated for more nodes: docs/measurements/scale.md"
)
MEASURED_MOUNT = (
    "to the first step of torch_mnist with 4 ranks on two cores 10.9 s, and 13.6 s where each "
    "rank mounts the file; with 2 ranks 6.7 and 5.9 s"
)
# Kinds of file systems by what they give all nodes together.
SERVERS = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "fuse.sshfs"), ONE_SERVER),
    **dict.fromkeys(("lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "pvfs2"), PARALLEL),
}
TRACKS_TASKS = "proctrack/cgroup"  # ProctrackType, by which Slurm signals a task's first process
SHARING = 4  # ranks on a node from which one mount was quicker; with 2 it was no quicker
# `--stage-data auto`. Files of a folder are looked up and opened in each epoch.
MANY_FILES = 1000
MEASURED_DATA = (
    "docs/measurements/data.md: where each request takes 1 ms, later epochs open 1,510 files a "
    "second in a folder, 11,600 in one squashfs file, 19,100 in a folder on the node's own disk"
)
IN_MEMORY = 2 * 10**9  # bytes that a node keeps in memory after the first epoch anyway
MOST = 200 * 10**9  # bytes that take minutes to copy
# Folders of each machine's own, and variables with folders that nodes see.
NODE_LOCAL = tuple(Path(folder) for folder in ("/tmp", "/var/tmp", "/dev/shm"))
TEMPORARY = ("tmpfs", "ramfs")
SHARED = ("RUNNER_SCRATCH", "SCRATCH", "PSCRATCH", "HOME")


def choose(case: Case, start: Start, log: DecisionLog) -> Staging:
    """Choose what reaches the nodes' own disks first, and how the image is read."""
    profile = case.site.profile
    root = profile.paths.get(OF_SITE, "") if profile else ""
    data = _data(case, start, log)
    return Staging(data, _image(case, start, log), case.image.offset, root)


def cannot(launching: Launching) -> str:
    """Return why nothing can be brought there, "" when it can."""
    if SCHEDULERS[launching.scheduler].STEPS is None:
        return f"{launching.scheduler} cannot run a command once per node"
    if launching.runtime in STORES:
        return f"{launching.runtime} is not known to access node-local disks"
    return ""


def signals_end_mounts(spec: JobSpec, site: Site) -> bool:
    """Whether the ranks are to be signalled, and Slurm then signals what shows them the image.

    Ran with proctrack/linuxproc, which signals every process of a rank: squashfuse ends by SIGUSR1
    and by SIGTERM, and the ranks by a bus error before they have saved. What holds a mount for all
    ranks of a node blocks these signals.
    """
    signalled = spec.requeue or spec.signal is not None
    return bool(signalled) and site.proctrack not in ("", TRACKS_TASKS)


def too_small(size: int, site: Site, resources: JobResources) -> str:
    """Return what `size` bytes exceed, "" when they fit as far as is known."""
    chosen = partition.of(site, resources)
    disk = chosen.disk_mb * 2**20 if chosen else 0
    if size <= (disk or UNKNOWN_DISK):
        return ""
    return f"a node's disk, {disk / 10**9:.0f} GB" if disk else "every node has room for"


def _image(case: Case, start: Start, log: DecisionLog) -> ImageAccess:
    """Choose how the image is read: in place, by one mount, copied to the nodes, or unpacked."""
    requested, why = case.spec.stage_image, _cannot_send(case.image, start.launching)
    if requested and requested is not ImageAccess.IN_PLACE:
        return _as_asked(requested, why, case, log)
    auto = requested is None
    by_default = auto or case.is_unasked(ChoiceId.STAGE_IMAGE)
    mounts = not why and case.site.fuse and case.image.offset
    if mounts and by_default and signals_end_mounts(case.spec, case.site):
        kind = f"ProctrackType={case.site.proctrack}"
        reason = f"with {kind} signals would end a mount of each rank's own"
        return log.choose(ChoiceId.STAGE_IMAGE, ImageAccess.MOUNTED, reason)
    best, reason = (ImageAccess.IN_PLACE, why) if why else _image_worth_it(case, start.resources)
    evidence = "" if why else MEASURED_IMAGE
    if not auto:
        if best is not ImageAccess.IN_PLACE:
            advice = f"--stage-image auto would stage it: {reason}"
            log.choose(ChoiceId.STAGE_IMAGE, ImageAccess.IN_PLACE, advice, evidence)
        return ImageAccess.IN_PLACE
    shared = "" if why else _shared(case, start.resources)
    if shared and best is ImageAccess.IN_PLACE:
        best, reason, evidence = ImageAccess.MOUNTED, shared, MEASURED_MOUNT
    return log.choose(ChoiceId.STAGE_IMAGE, best, reason, evidence)


def _as_asked(requested: ImageAccess, why_not: str, case: Case, log: DecisionLog) -> ImageAccess:
    if not why_not and requested is not ImageAccess.COPIED and not case.image.offset:
        why_not = f"{case.image.path.name} holds no squashfs"
    if why_not:
        log.refuse(
            "stage-image-impossible",
            f"--stage-image {requested}: {why_not}",
            "",
            change(stage_image="none"),
        )
    return log.choose(ChoiceId.STAGE_IMAGE, requested, case.why(ChoiceId.STAGE_IMAGE))


def _cannot_send(image: ImageInfo, launching: Launching) -> str:
    why, runtime = cannot(launching), launching.runtime
    if why:
        return why
    if runtime not in FILES:
        return f"--runtime {runtime} reads no image file"
    return "" if image.size else f"{image.path.name} is a folder; only a file can be copied"


def _shared(case: Case, resources: JobResources) -> str:
    """Return why the ranks of a node share one mount, "" where each has its own."""
    ranks = resources.tasks_of_a_node
    if not (case.site.fuse and case.image.offset) or ranks < SHARING:
        return ""
    return f"up to {ranks} ranks per node share the cache of one squashfuse"


def _image_worth_it(case: Case, resources: JobResources) -> tuple[ImageAccess, str]:
    """Return the best way and why, from size, nodes, file system and room."""
    site, image = case.site, case.image
    nodes, kind = resources.nodes, image.filesystem or "a file system of an unknown kind"
    way, why = ImageAccess.COPIED, ""
    if site.unpacks and image.offset:
        way = ImageAccess.UNPACKED
        why = f"{site.unpacks}: each rank would unpack the whole image for itself"
    elif kind not in SERVERS:
        return ImageAccess.IN_PLACE, f"it is on {kind}, not known as a shared file system"
    else:
        why = f"{nodes:,} nodes on {kind}: {cost_model.in_words(nodes, image.size, SERVERS[kind])}"
        if not cost_model.pays(nodes, image.size, SERVERS[kind]):
            return ImageAccess.IN_PLACE, why
    size = image.size * (1 + UNPACKED_FACTOR if way is ImageAccess.UNPACKED else 1)
    small = too_small(size, case.site, resources)
    if small:
        return ImageAccess.IN_PLACE, f"{size / 10**9:.1f} GB is more than {small}"
    return way, why


def _data(case: Case, start: Start, log: DecisionLog) -> DataAccess:
    """Record what the data is, and choose whether it is copied to the nodes."""
    spec = case.spec
    for dataset in spec.data:
        if dataset.origin:
            log.choose(ChoiceId.DATA, str(dataset.path), dataset.origin)
    requested, why = spec.stage_data, cannot(start.launching)
    if requested is DataAccess.COPIED and not spec.data:
        log.refuse(
            "stage-data-without-data",
            "--stage-data node-local: there is no data",
            "",
            change(data="DATASET"),
        )
    elif requested is DataAccess.COPIED:
        if why:
            log.refuse(
                "stage-data-impossible",
                f"--stage-data node-local: {why}",
                "",
                change(stage_data="none"),
            )
        access = DataAccess.IN_PLACE if why else DataAccess.COPIED
        return log.choose(ChoiceId.STAGE_DATA, access, case.why(ChoiceId.STAGE_DATA))
    elif requested is None and spec.data:
        staged, reason = (False, why) if why else _data_worth_it(case, start.resources)
        many = sum(dataset.files for dataset in spec.data) > MANY_FILES
        evidence = MEASURED_DATA if many else ""
        access = DataAccess.COPIED if staged else DataAccess.IN_PLACE
        return log.choose(ChoiceId.STAGE_DATA, access, reason, evidence)
    return DataAccess.IN_PLACE


def _data_worth_it(case: Case, resources: JobResources) -> tuple[bool, str]:
    """Decide from size, number of files, nodes and room, as far as these are known."""
    spec = case.spec
    size, nodes = sum(dataset.size for dataset in spec.data), resources.nodes
    files = sum(dataset.files for dataset in spec.data)
    shown = f"{size / 10**9:.1f} GB"
    if any(dataset.at_least for dataset in spec.data):
        what = f"more than {files} files; copying them takes too long"
        return False, f"{what}: runner data pack packs them into one file"
    small = too_small(size, case.site, resources)
    if small:
        return False, f"{shown} is more than {small}"
    if size > MOST:
        return False, f"{shown} takes long to copy"
    if files > MANY_FILES:
        return True, f"{files} files, which each epoch opens again on the shared file system"
    if size <= IN_MEMORY:
        return False, f"{shown} in few files: a node keeps them in memory after the first epoch"
    if nodes == 1:
        return False, f"{shown} in few files, for one node"
    return True, f"{shown} for {nodes} nodes: read once instead of by each node in each epoch"


def own_folders(case: Case, start: Start, log: DecisionLog) -> None:
    """Refuse what nodes do not see; a cluster of one node may be this machine itself."""
    chosen = partition.of(case.site, start.resources)
    if not capabilities(start.launching.scheduler).queue or (
        chosen is not None and chosen.nodes == 1
    ):
        return
    tops = filter(None, map(case.site.environment.get, SHARED))
    top = next((top for top in tops if not _own(Path(top))), "/shared")
    for subject, path, remedy in _used(case, start.launching.runtime, top):
        why = unseen(path, case.filesystems.get(path, ""))
        if why:
            log.refuse(
                "path-not-shared",
                f"the nodes of a job cannot access {subject}, {path}",
                why,
                remedy,
            )


def unseen(path: Path, kind: str) -> str:
    """Return why other machines do not see a path on a file system of this kind, "" if they may."""
    if kind in TEMPORARY:
        return f"its file system is {kind}"
    own_folder = _own(path)
    return f"each node has its own {own_folder}" if own_folder and kind not in SERVERS else ""


def _own(path: Path) -> str:
    """Return the folder of each node's own that it lies in, "" for none."""
    return next((str(folder) for folder in NODE_LOCAL if folder in (path, *path.parents)), "")


def _used(case: Case, runtime: RuntimeName, top: str) -> Iterator[tuple[str, Path, Remedy]]:
    """Yield what the job reads or writes, and what to type instead."""
    spec = case.spec
    yield "the run's folder", spec.runs_dir, change(runs_dir=f"{top}/runs")
    if runtime in (*FILES, RuntimeName.NONE):
        path = spec.image.path
        copy = f"{top}/{path.name}"
        first = "" if spec.image.unbuilt else quoting.join(["cp", "-r", str(path), copy])
        yield "the image", path, change(image=copy, first=first)
    if spec.trainer.file:
        yield "the trainer", spec.trainer.file, command("cp", spec.trainer.file, top)
    for dataset in spec.data:
        yield "the data", dataset.path, command("cp", "-r", dataset.path, top)
