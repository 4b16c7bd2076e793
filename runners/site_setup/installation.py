"""This installation of `runner`, as others are to start it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from ..core import shell
from ..core.errors import Refused
from . import folder

PACKAGE = Path(__file__).parents[1]
# The interpreter without the current folder and PYTHON* variables, as the launcher starts it.
ISOLATED = [sys.executable, "-I"]
WHERE = "import runners; print(runners.__path__[0])"


def check() -> None:
    """Raise Refused unless this interpreter finds this very package from anywhere."""
    found = shell.run([*ISOLATED, "-c", WHERE])
    if found.code == 0 and Path(found.out.strip()).resolve() == PACKAGE.resolve():
        return
    source = shlex.quote(str(PACKAGE.parent))
    raise Refused(
        f"this runner is not installed: it is the one in {PACKAGE.parent}",
        f"{sys.executable} -I finds "
        + (found.out.strip() or found.err.strip().rpartition("\n")[2]),
        f"python3 -m venv /SHARED/runner && /SHARED/runner/bin/pip install {source}\n"
        "/SHARED/runner/bin/runner site-setup FOLDER",
    )


def launcher() -> str:
    """Return the text of the program `runner` for the users' PATH.

    PYTHONPATH or PYTHONHOME, which other modules set, are for another Python.
    """
    command = shlex.join([*ISOLATED, "-m", "runners"])
    return f'#!/bin/sh\n# Made by `runner site-setup`.\nexec {command} "$@"\n'


def closed_to_others() -> Iterator[tuple[str, Path]]:
    """Yield what of this installation other users cannot read, each time with what keeps them out.

    What one folder keeps them from is told once.
    """
    told = set()
    for what, path in (
        ("runner's package", PACKAGE),
        ("its Python", Path(sys.executable)),
        ("its Python's library", Path(sys.base_prefix)),
    ):
        found = folder.closed(path)
        if found and found not in told:
            told.add(found)
            yield what, found
