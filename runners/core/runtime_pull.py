"""The container runtime, and its own pull, which makes a SIF of an OCI image.

spython 0.3.14 would run the same commands, but always `singularity`, with its output between ours
and without telling why one failed.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from . import disk_space, shell
from .errors import Refused, SystemFault
from .progress import Progress

FATAL = re.compile(r"^(?:FATAL|ERROR):\s+(.+)$", re.MULTILINE | re.DOTALL)


def command() -> str:
    """Return the runtime's path; raise Refused when this machine has none."""
    found = shutil.which("apptainer") or shutil.which("singularity")
    if found is None:
        raise Refused(
            "there is no container runtime on this machine",
            "neither apptainer nor singularity is on the PATH",
            "module load apptainer",
        )
    return found


def plain() -> bool:
    """Whether the user's environment allows http, in the words of the runtime's --no-https."""
    names = ("APPTAINER_NOHTTPS", "SINGULARITY_NOHTTPS")
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes") for name in names)


def pull(text: str, name: str, part: Path, arch: str, plain: bool, progress: Progress) -> None:
    """Let the runtime make the SIF `part` of `text`, with its temporary files beside it.

    `name` is what people call it. Nothing goes through its cache: the stored file is the cache.
    """
    argv = [command(), "pull", "--disable-cache", "--arch", arch, str(part), text]
    env, prefix = dict(os.environ), Path(argv[0]).name.upper()
    if plain:
        env[f"{prefix}_NOHTTPS"] = "true"
    env.setdefault(f"{prefix}_TMPDIR", str(part.parent))
    # containers/image, the library in the runtime, has a folder for large files of its own.
    env.setdefault("TMPDIR", str(part.parent))
    progress.begin(f"pulling {name}")
    done = shell.watch(argv, lambda: progress.at(part.stat().st_size if part.exists() else 0), env)
    if done.code:
        raise fault(name, done.out, part.parent)


def fault(name: str, output: str, work: Path) -> SystemFault:
    """Return the error that the runtime's output tells of."""
    fatal = FATAL.search(output)
    words = (fatal.group(1) if fatal else output).strip()
    if re.search("no space left on device|disk quota exceeded", output, re.IGNORECASE):
        return disk_space.full(work, words)
    return SystemFault(f"pulling {name} failed", words or "the runtime said nothing")
