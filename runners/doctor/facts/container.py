"""The container runtime, what it needs of the kernel, and which ways of building and running work.

What works is found by doing it with something tiny; the rest explains why.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from containers import build_modes, process

from ...images.image_storage import SQUASHFUSE, parse_config, setuid, tools_path
from ..question import Answer, ask

SECONDS_FOR_A_RUN = 60.0
# Programs that the runtime uses: the first of a row that is there will do.
TOOLS = {
    "squashfuse": SQUASHFUSE,
    "fuse-overlayfs": ("fuse-overlayfs",),
    "fusermount": ("fusermount3", "fusermount"),
    "mksquashfs": ("mksquashfs",),
    "newuidmap": ("newuidmap",),
}
# Words of the runtime when it could not mount an image (internal/pkg/runtime/engine, 1.1 to 1.4).
UNPACKED = ("Converting SIF file to temporary sandbox", "Converting SIF to sandbox")


@dataclass(frozen=True)
class Run:
    """The outcome of starting `true` in an image: the runtime's answer, and how long it took."""

    what: str
    answer: Answer
    seconds: float = 0.0

    @property
    def unpacked(self) -> bool:
        """Whether the image was unpacked first, for want of a way to mount it."""
        return any(words in self.answer.err for words in UNPACKED)


@dataclass(frozen=True)
class Container:
    """What containers can rely on here; everything but `settings` is empty without a runtime.

    `setuid` is whether the installation has a program that runs as root. `builds` are the ways of
    building that were tried, each with what came of it; `subordinate` the lines of /etc/subuid and
    /etc/subgid that are the user's.
    """

    command: str
    version: Answer
    setuid: bool
    tools: dict[str, str]
    fuse: bool
    namespace: Answer
    settings: Mapping[str, str]
    subordinate: tuple[str, ...]
    remedy: str
    builds: tuple[tuple[build_modes.Mode | None, str], ...] = ()
    runs: tuple[Run, ...] = ()


def look(command: str, user: str, folder: Path) -> Container:
    """Ask this machine; what is tried is made below `folder`, and removed."""
    config = _config(command)
    settings = build_modes.settings()
    return Container(
        command=command,
        version=ask([command, "--version"]),
        setuid=setuid(config),
        tools=_tools(tools_path(config)),
        fuse=os.access("/dev/fuse", os.R_OK | os.W_OK),
        namespace=ask(["unshare", "--user", "--map-root-user", "true"]),
        settings=settings,
        subordinate=subordinate(user),
        remedy=build_modes.remedy(settings, user),
        builds=_builds(folder),
        runs=_runs(command, folder),
    )


def _config(command: str) -> dict[str, str]:
    return parse_config(ask([command, "buildcfg"]).out)


def _tools(path: str) -> dict[str, str]:
    """Return where each tool is."""
    found = {}
    for name, programs in TOOLS.items():
        there = [shutil.which(program, path=path) for program in programs]
        found[name] = next((place for place in there if place), "")
    return found


def subordinate(user: str, etc: str = "/etc") -> tuple[str, ...]:
    """Return the user's lines of /etc/subuid and /etc/subgid, by name or number."""
    lines = []
    for name in ("subuid", "subgid"):
        path = Path(etc, name)
        text = path.read_text(errors="replace") if path.is_file() else ""
        lines += [f"{path}: {line}" for line in text.splitlines() if _of(line, user)]
    return tuple(lines)


def _of(line: str, user: str) -> bool:
    return line.split(":")[0] in (user, str(os.getuid()))


def _builds(folder: Path) -> tuple[tuple[build_modes.Mode | None, str], ...]:
    """Build something tiny in each way. The ways are Apptainer's; Singularity's are not tried."""
    if not shutil.which("apptainer"):
        return ()
    environ = {"APPTAINER_TMPDIR": str(folder), **os.environ}
    found = []
    for flags in build_modes.FLAGS:
        mode, told = build_modes.attempt(flags, environ)
        found.append((mode, f"{' '.join(flags) or 'no flag'}: {told}"))
    return tuple(found)


def _runs(command: str, folder: Path) -> tuple[Run, ...]:
    """Start a folder and, where one can be made without help, a SIF file, mounted and unpacked."""
    work = Path(tempfile.mkdtemp(prefix="doctor-", dir=folder))
    try:
        binds = [word for bind in build_modes.make_tree(work / "root") for word in ("--bind", bind)]
        sif = work / "tiny.sif"
        made = ask([command, "build", str(sif), str(work / "root")], SECONDS_FOR_A_RUN)
        runs = [("a folder (sandbox)", [*binds, str(work / "root")])]
        if not made.problem:
            runs.append(("a SIF file", [*binds, str(sif)]))
            runs.append(
                ("a SIF file, unpacked first (--unsquash)", ["--unsquash", *binds, str(sif)])
            )
        found = [start(what, command, words) for what, words in runs]
        return tuple(found) if not made.problem else (*found, Run("making a SIF file", made))
    finally:
        process.remove(work)


def start(what: str, command: str, words: list[str]) -> Run:
    """Run `true` in an image, as a job would; `words` are options and the image."""
    began = time.monotonic()
    answer = ask([command, "exec", *words, "/bin/true"], SECONDS_FOR_A_RUN)
    return Run(what, answer, time.monotonic() - began)
