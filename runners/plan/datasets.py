"""The data: where each dataset comes from, and whether it goes to the nodes' own disks first."""

from __future__ import annotations

from ..core.remedy import change
from . import node_disk
from .case import Case
from .log import Log

# `--stage-data auto`. Files of a folder are looked up and opened in each epoch.
MANY_FILES = 1000
MEASURED = (
    "make bench: where each question takes 1 ms, 1,640 files a second out of a folder, 17,200 out "
    "of one squashfs file, 31,700 on the node's own disk"
)
IN_MEMORY = 2 * 10**9  # bytes that a node keeps in memory after the first epoch anyway
STAGED, IN_PLACE = "node-local", "none"
MOST = 200 * 10**9  # bytes that take minutes to copy


def choose(case: Case, log: Log) -> None:
    """Note what the data is, and choose whether it is staged."""
    spec = case.spec
    for each in spec.data:
        if each.found:
            log.choose("data", str(each.path), each.found)
    asked, why = spec.stage_data, node_disk.cannot(log)
    if asked == STAGED and not spec.data:
        log.refuse("--stage-data node-local: there is no data", "", change(data="DATASET"))
    elif asked == STAGED:
        if why:
            log.refuse(f"--stage-data node-local: {why}", "", change(stage_data="none"))
        log.choose("stage-data", IN_PLACE if why else STAGED, case.why("stage-data"))
    elif asked == "auto" and spec.data:
        staged, reason = (False, why) if why else _worth_it(case)
        many = sum(each.files for each in spec.data) > MANY_FILES
        log.choose("stage-data", STAGED if staged else IN_PLACE, reason, MEASURED * many)


def _worth_it(case: Case) -> tuple[bool, str]:
    """Decide from size, number of files, nodes and room, as far as these are known."""
    spec = case.spec
    size, nodes = sum(each.size for each in spec.data), spec.resources.nodes
    files = sum(each.files for each in spec.data)
    shown = f"{size / 10**9:.1f} GB"
    if any(each.at_least for each in spec.data):
        what = f"more than {files} files; copying them takes too long"
        return False, f"{what}: runner data pack makes one file of them"
    small = node_disk.too_small(size, case)
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
