"""`--profile-with`: a profiler's command around the trainer of some ranks, such as `nsys profile`.

Its output goes into the run's folder; the trainer becomes its child, in the same container.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .agents import is_python
from .usage.processes import tree

if TYPE_CHECKING:
    from .start import ShimOptions

OUTPUT = "{output}"  # what of the command becomes RUN/profile/rank-N
ALL = "all"
FOLDER = "profile"


def ranks(text: str) -> tuple[range, ...] | None:
    """Return the ranks of `0,2-3`, None for all of them. Raises ValueError."""
    if text == ALL:
        return None
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"{part!r} is neither a rank nor a range of ranks")
        found.append(range(int(first), int(last) + 1))
    return tuple(found)


def wanted(options: ShimOptions, rank: int) -> bool:
    chosen = ranks(options.profile_ranks)
    return bool(options.profile_with) and (chosen is None or any(rank in one for one in chosen))


def tool(options: ShimOptions) -> str | None:
    """Return the profiler's file: the image's, or the one that was mounted; None without both."""
    name = shlex.split(options.profile_with)[0]
    return shutil.which(name) or shutil.which(options.profile_tool)


def missing(options: ShimOptions, host: str) -> str:
    """Return the message for a profiler that is not there."""
    name = shlex.split(options.profile_with)[0]
    where = f"no executable file {name}" if "/" in name else f"no {name} on the PATH of the image"
    return f"--profile-with: {where} on {host}"


def around(options: ShimOptions, rank: int, program: str) -> list[str]:
    """Return the whole command of a rank whose profiler is `program`."""
    folder = os.path.join(options.run_dir, FOLDER)
    os.makedirs(folder, 0o755, exist_ok=True)
    output = os.path.join(folder, f"rank-{rank}")
    words = [word.replace(OUTPUT, output) for word in shlex.split(options.profile_with)[1:]]
    return [program, *words, *_trainer(options.command)]


def _trainer(command: Sequence[str]) -> list[str]:
    return [sys.executable, *command] if is_python(command) else [*command]


def pid_of_trainer(child: int, command: Sequence[str]) -> int:
    """Return the trainer below a profiler, which may not pass signals on; else the profiler."""
    words = _trainer(command)
    for pid in tree(child):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found = file.read().split(b"\0")[:-1]
        except OSError:  # it has just ended
            continue
        if found == [os.fsencode(word) for word in words]:
            return pid
    return child
