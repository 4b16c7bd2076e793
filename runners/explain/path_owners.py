"""Whose a file is: of some, no bind mount of the user's brings their folder into a container."""

from __future__ import annotations

import re
from collections.abc import Iterable

OWNERS = {
    r"/(?:site|dist)-packages/": "it is a package's own, which was installed in part or in another "
    "version: install that package again, in an image of your own",
    r"/\.(?:cache|triton|keras|nv)/": "it is in a cache, which is empty here or was emptied by "
    "another process: fill it once where there is a network, with one process",
    r"^/(?:tmp|var/tmp|dev/shm|run)/": "it is temporary: a process of another node or container "
    "made it, or one that ended has removed it",
    r"^/(?:proc|sys|dev)/": "the node's kernel or a driver provides it, which is not loaded there, "
    "or the container hides it",
    r"^/(?:usr|etc|s?bin|lib\w*|var)/": "it is the system's: the package that has it is to be "
    "installed in an image of your own",
}
# Advice to bind the folder of a file; not one of the user's choice, which a variable then names
TO_BIND = re.compile(r"--bind FOLDER(?! --env)|`--bind` (?:it|its)\b|\bbind (?:it|its|that)\b")


def owner_of(path: str) -> str:
    """Return whose a file is that no bind mount of the user's brings; "" for any other."""
    return next((owner for pattern, owner in OWNERS.items() if re.search(pattern, path)), "")


def that_can_be_done(steps: tuple[str, ...], found: Iterable[str]) -> tuple[str, ...]:
    """Return the steps of a fix, without a bind of a folder that none brings: it is said why."""
    paths = (words for words in found if words.startswith(("/", "~")))
    path = next(filter(owner_of, paths), "")
    kept = tuple(step for step in steps if not path or not TO_BIND.search(step))
    return steps if kept == steps else (*kept, f"A bind does not bring {path}: {owner_of(path)}")
