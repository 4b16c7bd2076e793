"""The data: where each dataset comes from, and whether it goes to the nodes' own disks first."""

from __future__ import annotations

from ..core.model import JobSpec, Site
from . import node_disk
from .choices import Notes

# `--stage-data auto`. Files of a folder are looked up and opened in each epoch.
MANY_FILES = 1000
MEASURED = (
    "make bench: where each question takes 1 ms, 1,640 files a second out of a folder, 17,200 out "
    "of one squashfs file, 31,700 on the node's own disk"
)
IN_MEMORY = 2 * 10**9  # bytes that a node keeps in memory after the first epoch anyway
MOST = 200 * 10**9  # bytes that take minutes to copy


def choose(spec: JobSpec, site: Site, scheduler: str, runtime: str, notes: Notes) -> bool:
    """Note what the data is; return whether it is staged."""
    for each in spec.data:
        if each.found:
            notes.choose(f"dataset {each.path.name}", str(each.path), each.found)
    if spec.stage_data == "none":
        return False
    if not spec.data:
        if spec.stage_data == "node-local":
            notes.refuse("--stage-data node-local: there is no data", "", "--data [NAME=]PATH")
        return False
    why = node_disk.cannot(scheduler, runtime)
    if spec.stage_data == "node-local":
        if why:
            notes.refuse(f"--stage-data node-local: {why}", "", "--stage-data none")
        notes.choose("data staged", "on each node", "as asked")
        return not why
    staged, reason = (False, why) if why else _worth_it(spec, site)
    many = sum(each.files for each in spec.data) > MANY_FILES
    notes.choose("data staged", "on each node" if staged else "no", reason, MEASURED * many)
    return staged


def _worth_it(spec: JobSpec, site: Site) -> tuple[bool, str]:
    """Decide from size, number of files, nodes and room, as far as these are known."""
    size, nodes = sum(each.size for each in spec.data), spec.resources.nodes
    files = sum(each.files for each in spec.data)
    shown = f"{size / 10**9:.1f} GB"
    if any(each.at_least for each in spec.data):
        what = f"more than {files} files; copying them takes too long"
        return False, f"{what}: runner data pack makes one file of them"
    small = node_disk.too_small(size, spec, site)
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
