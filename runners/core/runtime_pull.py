"""The container runtime's own pull and push, where it knows more than this project.

spython 0.3.14 would run the same commands, but always `singularity`, with its output between ours
and without telling why one failed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import disk_space, shell
from .errors import NotFound, Refused, RunnerError, SystemFault
from .progress import Progress

FATAL = re.compile(r"^(?:FATAL|ERROR):\s+(.+)$", re.MULTILINE | re.DOTALL)
NO_LIBRARY = "APPTAINER_LIBRARY=https://SERVER runner ..., or apptainer remote add NAME SERVER"
# Part of the runtime's words -> error, what happened, the next command. The first match counts.
FAULTS: tuple[tuple[str, type[RunnerError], str, str], ...] = (
    ("no library client", Refused, "no library server is set", NO_LIBRARY),
    ("connection refused|no such host|i/o timeout", SystemFault, "the server does not answer", ""),
    (
        "unauthorized|401|denied",
        Refused,
        "the server refuses access",
        "runner registry login -u NAME REGISTRY",
    ),
    ("does not exist in the library|not found|404", NotFound, "the server has no such image", ""),
    (
        "signature not found|unsigned",
        Refused,
        "a library takes signed images only",
        "runner sign IMAGE, or --allow-unsigned",
    ),
)


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


ALLOW_HTTP = {"APPTAINER_NOHTTPS": "true"}


def plain() -> bool:
    """Whether the user's environment allows http, in the words of the runtime's --no-https."""
    names = ("APPTAINER_NOHTTPS", "SINGULARITY_NOHTTPS")
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes") for name in names)


def pull(text: str, name: str, part: Path, arch: str, plain: bool, progress: Progress) -> None:
    """Let the runtime make the SIF `part` of `text`, with its temporary files beside it.

    `name` is what people call it. Nothing goes through its cache: the stored file is the cache.
    """
    program = command()
    argv = [program, "pull", "--disable-cache", "--arch", arch, str(part), text]
    _run(argv, plain, f"pulling {name}", part, progress)


def push(image: Path, text: str, plain: bool, unsigned: bool, progress: Progress) -> None:
    flags = ["--allow-unsigned"] if unsigned else []
    argv = [command(), "push", *flags, str(image), text]
    _run(argv, plain, f"pushing to {text}", None, progress)


def _run(
    argv: Sequence[str], plain: bool, what: str, part: Path | None, progress: Progress
) -> None:
    work = part.parent if part else None
    progress.begin(what)

    def tick() -> None:
        progress.at(part.stat().st_size if part and part.exists() else 0)

    done = shell.watch(argv, tick, _environment(Path(argv[0]).name, plain, work))
    if done.code:
        raise fault(what, done.out, work)


def _environment(program: str, plain: bool, work: Path | None) -> dict[str, str]:
    """Return ours, with what stays the user's own choice where it was made."""
    env, prefix = dict(os.environ), program.upper()
    if plain:
        env[f"{prefix}_NOHTTPS"] = "true"
    if work is not None:
        env.setdefault(f"{prefix}_TMPDIR", str(work))
        # containers/image, the library in the runtime, has a folder for large files of its own.
        env.setdefault("TMPDIR", str(work))
    return env


def fault(what: str, output: str, work: Path | None) -> RunnerError:
    """Return the error that the runtime's output tells of."""
    fatal = FATAL.search(output)
    words = (fatal.group(1) if fatal else output).strip()
    if re.search("no space left on device|disk quota exceeded", output, re.IGNORECASE):
        return disk_space.full(work or Path.cwd(), words)
    for pattern, kind, message, remedy in FAULTS:
        if re.search(pattern, words, re.IGNORECASE):
            return kind(f"{what}: {message}", words, remedy)
    return SystemFault(f"{what} failed", words or "the runtime said nothing")
