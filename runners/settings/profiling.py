"""`--profile-with` and `--profile-ranks`: the command, and where its tool lies on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..contract import rank_command
from ..core.errors import UsageError
from ..core.remedy import advice, change
from ..core.trainer import Profiling

EXAMPLE = "nsys profile -o {output}"
BINARIES = ("bin", "sbin")
SHALLOW = 3  # parts of a path such as /opt, /home/ada: too much to mount


def read(command: str | None, ranks: str | None) -> Profiling | None:
    """Return what was asked for; raise UsageError for what cannot be run."""
    if command is None:
        if ranks is not None:
            raise UsageError(
                "--profile-ranks goes with --profile-with",
                remedy=change(profile_with=EXAMPLE),
                id="profile-ranks-alone",
            )
        return None
    words = _words(command)
    chosen = ranks or "0"
    try:
        rank_command.parse_ranks(chosen)
    except ValueError as error:
        raise UsageError(
            f"--profile-ranks {chosen!r}: {error}",
            remedy=change(profile_ranks="0,2-3"),
            id="profile-ranks-malformed",
        ) from None
    tool = _tool(words[0])
    if "/" in words[0]:
        words[0] = str(Path(words[0]).expanduser().absolute())
    return Profiling(shlex.join(words), chosen, tool, tuple(_folders(tool)) if tool else ())


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(
            f"--profile-with {command!r} is no command: {error}", id="profiler-quoting"
        ) from None
    if not words or any(not char.isprintable() for char in command):
        raise UsageError(
            f"--profile-with {command!r} is no command of visible characters",
            id="profiler-malformed",
        )
    if not any(rank_command.OUTPUT in word for word in words[1:]):
        purpose = "which becomes a file in the run's folder, for each rank its own"
        raise UsageError(
            f"--profile-with {command!r} has no {rank_command.OUTPUT}, {purpose}",
            remedy=advice(f"--profile-with {shlex.quote(EXAMPLE)}, where the tool takes its file"),
            id="profiler-output-missing",
        )
    return words


def _tool(name: str) -> str:
    """Return the tool's file on this machine; "" where it has none, as an image may."""
    path = Path(name).expanduser()
    if "/" in name and path.exists() and not (path.is_file() and os.access(path, os.X_OK)):
        raise UsageError(
            f"--profile-with: {name} is not an executable file", id="profiler-not-executable"
        )
    program = shutil.which(path if "/" in name else name)
    return os.path.abspath(program) if program else ""


def _folders(tool: str) -> Iterator[str]:
    """Yield what the tool needs of this machine: its folder, or what `bin` lies in, links too."""
    for path in dict.fromkeys((Path(tool), Path(os.path.realpath(tool)))):
        folder = path.parent
        above = folder.parent
        yield str(above if folder.name in BINARIES and len(above.parts) > SHALLOW else folder)
