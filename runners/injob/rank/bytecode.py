"""Lets Python read and write bytecode beside the source, where that is as safe as the source.

PYTHONPYCACHEPREFIX leads all of it into the job's own folder, and hides what an image or an
environment has beside its modules: each job would compile them again. Others can put bytecode, and
no source, only into a folder that is shared with a sticky bit, as /tmp is, or into a `__pycache__`
that is theirs or open to them. Python 3.8 or newer.
"""

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OTHERS = stat.S_IWGRP | stat.S_IWOTH
beside: "dict[str, bool]" = {}  # by folder of sources


def use_beside_source() -> None:
    """Let this process do so from now on, if it has a prefix."""
    module: Any = sys.modules["_frozen_importlib_external"]
    elsewhere = module.cache_from_source
    if getattr(sys, "pycache_prefix", None) is None or elsewhere.__module__ == __name__:
        return

    def cache_from_source(
        path: "Any", debug_override: "Any" = None, *, optimization: "Any" = None
    ) -> "str":
        folder, _, name = os.path.abspath(path).rpartition("/")
        if folder not in beside:
            beside[folder] = folder.startswith(installed) or is_safe(folder)
        if debug_override is not None or not beside[folder]:
            return str(elsewhere(path, debug_override, optimization=optimization))
        level = str((sys.flags.optimize or "") if optimization is None else optimization)
        end = f".opt-{level}.pyc" if level else ".pyc"
        return f"{folder}/__pycache__/{name.rpartition('.')[0]}.{sys.implementation.cache_tag}{end}"

    # Not each of hundreds of folders: a network's file system may take its time.
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    installed = tuple(f"{prefix}/lib" for prefix in prefixes if is_safe(prefix))
    module.cache_from_source = cache_from_source


def is_safe(folder: "str") -> "bool":
    """Whether only users who can write the source can write its bytecode."""
    try:
        source = os.stat(folder)
        if source.st_mode & stat.S_ISVTX and source.st_mode & OTHERS:
            return False
        cache = os.lstat(os.path.join(folder, "__pycache__"))
    except FileNotFoundError:
        return True  # only who can write here makes it
    except OSError:
        return False
    open_to_others = cache.st_mode & OTHERS & ~source.st_mode
    of_another = cache.st_uid != source.st_uid and not source.st_mode & OTHERS
    return stat.S_ISDIR(cache.st_mode) and not open_to_others and not of_another
