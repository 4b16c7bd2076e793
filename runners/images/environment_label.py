"""What an environment that `runner build env` made says of itself, as an image does by its labels.

The file is in the environment's folder: the facts under the names of our images' labels, the
modules with which Horovod was compiled, and the MPI library with its SHA-256.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core import digest
from ..core.files import read_versioned, write_versioned

NAME, FORM = "horovod-runner.json", 1
MODULES, LIBRARY, SHA256 = "modules", "mpi.library", "mpi.sha256"
# Facts of now, beside the labels of then.
LIBRARY_NOW, MODULES_GONE = "mpi.sha256.now", "modules.gone"
GONE = "gone"
# $@: modules, in their order, since one may bring the path on which the next is found (Lmod's
# hierarchies). Prints those that cannot be loaded; none where there is no such command here.
LOAD = """\
type module > /dev/null 2>&1 || exit 0
for name; do module load "$name" > /dev/null 2>&1 || printf '%s\\n' "$name"; done"""


def write(folder: Path, facts: Mapping[str, str], modules: Sequence[str], library: str) -> None:
    """Write what is known of it, when it is complete."""
    labels = {**facts, MODULES: " ".join(modules)}
    if library:
        labels |= {LIBRARY: library, SHA256: digest.sha256(Path(library))}
    write_versioned(folder / NAME, FORM, {"labels": labels})


def read(folder: Path) -> dict[str, str]:
    """Return the labels; none where we did not make it. Raises Refused for another form."""
    record = read_versioned(folder / NAME, FORM)
    return dict(record["labels"]) if record else {}


def now(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what has become of the MPI library and of the modules since it was made."""
    found = {}
    if library := labels.get(LIBRARY):
        there = os.path.isfile(library)
        found[LIBRARY_NOW] = digest.sha256(Path(library)) if there else GONE
    gone = _not_loadable(labels.get(MODULES, "").split())
    return {**found, **({MODULES_GONE: " ".join(gone)} if gone else {})}


def _not_loadable(modules: Sequence[str]) -> list[str]:
    """Return the modules that a login shell here cannot load one after the other."""
    if not modules:
        return []
    command = ["bash", "-lc", LOAD, "bash", *modules]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.split()
