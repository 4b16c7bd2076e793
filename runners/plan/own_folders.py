"""Files of this machine alone, which the nodes of a job would look for in vain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core import tokens
from ..core.remedy import Remedy, change, command
from . import partition, staging
from .case import Case, Log
from .execution import CONTAINERS

OWN = tuple(Path(folder) for folder in ("/tmp", "/var/tmp", "/dev/shm"))
IN_MEMORY = ("tmpfs", "ramfs")
SHARED = ("RUNNER_SCRATCH", "SCRATCH", "PSCRATCH", "HOME")  # variables with folders that nodes see


def check(case: Case, log: Log) -> None:
    """Refuse what nodes do not see; a cluster of one node may be this machine itself."""
    there = partition.of(case)
    if not log.scheduler.queue or (there is not None and there.nodes == 1):
        return
    tops = filter(None, map(case.site.environment.get, SHARED))
    top = next((top for top in tops if not _own(Path(top))), "/shared")
    for what, path, remedy in _used(case, log, top):
        kind = case.filesystems.get(path, "")
        own = _own(path)
        if kind in IN_MEMORY or (own and kind not in staging.NODES):
            why = f"its file system is {kind}" if kind in IN_MEMORY else f"each node has its {own}"
            log.refuse(f"the nodes of a job do not see {what}, {path}", why, remedy)


def _own(path: Path) -> str:
    """Return the folder of each node's own that it lies in, "" for none."""
    return next((str(folder) for folder in OWN if folder in (path, *path.parents)), "")


def _used(case: Case, log: Log, top: str) -> Iterator[tuple[str, Path, Remedy]]:
    """Yield what the job reads or writes, and what to type instead."""
    spec = case.spec
    yield "the run's folder", spec.runs_dir, change(runs_dir=f"{top}/runs")
    if log.chosen("runtime") in (*CONTAINERS, "none"):
        there = f"{top}/{spec.image.name}"
        first = tokens.join(["cp", "-r", str(spec.image), there])
        yield "the image", spec.image, change(image=there, first=first)
    if spec.trainer.file:
        yield "the trainer", spec.trainer.file, command("cp", spec.trainer.file, top)
    for each in spec.data:
        yield "the data", each.path, command("cp", "-r", each.path, top)
