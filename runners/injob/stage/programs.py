"""The programs that staging calls, of this node's own."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Optional

from .failure import NotStaged


def find(name: "str", folders: "Sequence[str]", advice: "str" = "") -> "str":
    """Return where a program is: on the PATH, or in these folders. Raises NotStaged."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    program = shutil.which(name, path=path)
    if program is None:
        raise NotStaged(f"there is no {name} here{advice}")
    return program


def run(argv: "list[str]", seconds: "Optional[float]" = None) -> "tuple[int, str]":
    """Run it; return its exit code and what it said."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 1, f"{argv[0]} took more than {seconds:.0f} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_line(text: "str", otherwise: "str") -> "str":
    """Return the last words of a program; `otherwise` when it said nothing."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [otherwise])[-1]
