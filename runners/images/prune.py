"""Removes stored images that nothing points to, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.locks import undisturbed
from . import download_dir, gc_roots, store


@dataclass(frozen=True)
class Pruned:
    """The digests of the removed images, the bytes they had, and leftovers of killed pulls."""

    digests: tuple[str, ...]
    size: int
    leftovers: int


def prune(dry_run: bool) -> Pruned:
    """Remove, or with `dry_run` only find, the files of the store that nothing needs.

    Needed is what a name in the folder points to, what an images.lock written by `runner pull`
    names, and what a run needs that has not ended. Raises Refused while a pull goes on, and
    SystemFault when the scheduler does not answer.
    """
    with undisturbed(download_dir.everybody(), "a pull is going on here"):
        needed = {*store.names().values(), *(digest for digest, _ in gc_roots.holders(ask=True))}
        unused = [digest for digest in store.digests() if digest not in needed]
        size = sum(store.path_of(digest).stat().st_size for digest in unused)
        if dry_run:
            return Pruned(tuple(unused), size, 0)
        for digest in unused:
            store.remove(digest)
        gc_roots.sweep()
        return Pruned(tuple(unused), size, len(download_dir.sweep()))
