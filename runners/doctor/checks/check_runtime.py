"""The container runtime: what it needs of the kernel, and which ways of building and running work.

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

from ...core import files
from ...core.remedy import advice, command, shell_line
from ...core.site import Site
from ...images.container_runtime import SQUASHFUSE, parse_config, setuid, tools_path
from ..finding import FAILURE, WARNING, About, Finding, Fix
from ..timed import Answer, ask

SECONDS_FOR_A_RUN = 60.0
# Programs that the runtime uses: the first of a row that is there will do.
TOOLS = {
    "squashfuse": SQUASHFUSE,
    "fuse-overlayfs": ("fuse-overlayfs",),
    "fusermount": ("fusermount3", "fusermount"),
    "mksquashfs": ("mksquashfs",),
    "newuidmap": ("newuidmap",),
}
MAKING = "making a SIF file"
# Words of the runtime when it could not mount an image (internal/pkg/runtime/engine, 1.1 to 1.4).
UNPACKED = ("Converting SIF file to temporary sandbox", "Converting SIF to sandbox")


@dataclass(frozen=True)
class ContainerStart:
    """The outcome of starting `true` in an image: the runtime's answer, and how long it took."""

    what: str
    answer: Answer
    seconds: float = 0.0

    @property
    def unpacked(self) -> bool:
        """Whether the image was unpacked first, for want of a way to mount it."""
        return any(words in self.answer.err for words in UNPACKED)


@dataclass(frozen=True)
class ContainerFacts:
    """What containers can rely on here; everything but `settings` is empty without a runtime.

    `setuid` is whether the installation has a program that runs as root. `builds` are the ways of
    building that were tried, each with its result; `subordinate` the lines of /etc/subuid and
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
    runs: tuple[ContainerStart, ...] = ()


def probe(command: str, user: str, folder: Path) -> ContainerFacts:
    """Ask this machine; what is tried is made below `folder`, and removed."""
    config = parse_config(ask([command, "buildcfg"]).out)
    settings = build_modes.settings()
    return ContainerFacts(
        command=command,
        version=ask([command, "--version"]),
        setuid=setuid(config),
        tools=_tools(tools_path(config)),
        fuse=os.access("/dev/fuse", os.R_OK | os.W_OK),
        namespace=ask(["unshare", "--user", "--map-root-user", "true"]),
        settings=settings,
        subordinate=subordinate(user),
        remedy=build_modes.remedy(settings, user),
        builds=_tried_builds(folder),
        runs=_runs(command, folder),
    )


def _tools(path: str) -> dict[str, str]:
    places_of = {
        name: [shutil.which(program, path=path) for program in programs]
        for name, programs in TOOLS.items()
    }
    return {name: next(filter(None, places), "") for name, places in places_of.items()}


def subordinate(user: str, etc: str = "/etc") -> tuple[str, ...]:
    """Return the user's lines of /etc/subuid and /etc/subgid, by name or number."""
    names, lines = (user, str(os.getuid())), []
    for path in (Path(etc, "subuid"), Path(etc, "subgid")):
        text = files.read_text(path).splitlines()
        lines += [f"{path}: {line}" for line in text if line.split(":")[0] in names]
    return tuple(lines)


def _tried_builds(folder: Path) -> tuple[tuple[build_modes.Mode | None, str], ...]:
    """Build something tiny in each way. The ways are Apptainer's; Singularity's are not tried."""
    if not shutil.which("apptainer"):
        return ()
    environ = {"APPTAINER_TMPDIR": str(folder), **os.environ}
    attempts = []
    for flags in build_modes.FLAGS:
        mode, answer = build_modes.attempt(flags, environ)
        attempts.append((mode, f"{' '.join(flags) or 'no flag'}: {answer}"))
    return tuple(attempts)


def _runs(command: str, folder: Path) -> tuple[ContainerStart, ...]:
    """Start a SIF file of nothing but a program, where one can be made."""
    work = Path(tempfile.mkdtemp(prefix="doctor-", dir=folder))
    try:
        binds = [word for bind in build_modes.make_tree(work / "root") for word in ("--bind", bind)]
        sif = work / "tiny.sif"
        made = ask([command, "build", str(sif), str(work / "root")], SECONDS_FOR_A_RUN)
        if made.problem:
            return (ContainerStart(MAKING, made),)
        return (start("running a SIF file", command, [*binds, str(sif)]),)
    finally:
        process.remove(work)


def start(what: str, command: str, words: list[str]) -> ContainerStart:
    """Run `true` in an image, as a job would; `words` are options and the image."""
    began = time.monotonic()
    answer = ask([command, "exec", *words, "/bin/true"], SECONDS_FOR_A_RUN)
    return ContainerStart(what, answer, time.monotonic() - began)


ABOUT = About("containers")
LOAD = command("module", "load", "apptainer")
# Words of the runtime when it starts a container, and what helps.
CAUSES: dict[str, Fix] = {
    "mount source": shell_line(
        "unset APPTAINER_BIND APPTAINER_BINDPATH SINGULARITY_BIND SINGULARITY_BINDPATH"
    ),
    "unknown userid": "getent passwd $(id -u)    (the runtime needs a name for your number)",
    "no space left on device": "export APPTAINER_TMPDIR=FOLDER, on scratch",
    "setting up user namespace": shell_line("sudo sysctl -w user.max_user_namespaces=15000"),
}


def absent(site: Site) -> list[Finding]:
    """Return the finding of a machine without a runtime; the nodes of a cluster may have one."""
    if site.runtimes:
        says = ", ".join(site.runtimes)
        return [ABOUT.ok("runtime", says, "a job shows what it can do: --job")]
    says = "none on this machine; the nodes must have one"
    if not site.schedulers:
        says = "none on this machine, and no scheduler: nothing can run"
    evidence = "neither apptainer nor singularity is on the PATH"
    severity = WARNING if site.schedulers else FAILURE
    return [ABOUT.finding("runtime", severity, says, evidence, LOAD)]


def check(container: ContainerFacts) -> list[Finding]:
    """Return what can be said of the runtime; of one that does not answer, only that."""
    if container.version.problem:
        says = f"{container.command} does not answer: {container.version.problem}"
        fix = _cause(container.version.err) or LOAD
        return [ABOUT.failure("runtime", says, container.version.shown, fix)]
    return [
        _runtime(container),
        _namespaces(container),
        _subordinate(container),
        _mounts(container),
        *_builds(container),
        *map(run, container.runs),
    ]


def _runtime(container: ContainerFacts) -> Finding:
    how = "with a setuid part" if container.setuid else "without setuid, through user namespaces"
    says = container.version.out.strip() or "says no version"
    return ABOUT.ok("runtime", says, f"{container.command}, installed {how}")


def _namespaces(container: ContainerFacts) -> Finding:
    name = "user namespaces"
    if not container.namespace.problem:
        return ABOUT.ok(name, "allowed", container.namespace.command)
    settings = [f"{key} = {value}" for key, value in container.settings.items()]
    evidence = "\n".join([container.namespace.shown, *settings])
    severity = WARNING if container.setuid else FAILURE
    says = "not allowed here: nothing can be built, and without setuid nothing can run"
    return ABOUT.finding(name, severity, says, evidence, container.remedy)


def _subordinate(container: ContainerFacts) -> Finding:
    name = "subordinate ids"
    missing = [
        file
        for file in ("subuid", "subgid")
        if not any(f"/{file}:" in line for line in container.subordinate)
    ]
    if not missing and container.tools.get("newuidmap"):
        says = "defined for this user"
        return ABOUT.ok(name, says, "\n".join(container.subordinate))
    lacks = " and ".join(f"no line in /etc/{file}" for file in missing) or "no newuidmap"
    says = f"{lacks}: images with several owners cannot be built in the best way"
    return ABOUT.warning(name, says, "\n".join(container.subordinate), container.remedy)


def _mounts(container: ContainerFacts) -> Finding:
    tools = [f"{tool}: {path or 'not here'}" for tool, path in container.tools.items()]
    fuse = f"/dev/fuse: {'usable' if container.fuse else 'not usable'}"
    return ABOUT.either(
        bool(container.setuid or (container.fuse and container.tools.get("squashfuse"))),
        "image mounts",
        "by the setuid part" if container.setuid else "by squashfuse",
        "no squashfuse: each start unpacks the whole image first, into memory or /tmp",
        "\n".join([*tools, fuse]),
        "sudo apt-get install squashfuse    (on RPM systems: sudo dnf install squashfuse)",
    )


def _builds(container: ContainerFacts) -> list[Finding]:
    if not container.builds:
        return []
    works = [mode for mode, _ in container.builds if mode]
    evidence = "\n".join(text for _, text in container.builds)
    if not works:
        says = "no build method works here; existing images can be pulled"
        fix = _cause("".join(tried.answer.err for tried in container.runs)) or container.remedy
        return [ABOUT.warning("building", says, evidence, fix)]
    names = ", ".join(dict.fromkeys(mode.name for mode in works))
    return [ABOUT.ok("building", names, evidence)]


def run(tried: ContainerStart) -> Finding:
    severity, detour = FAILURE, advice("apptainer build --sandbox FOLDER IMAGE, and --image FOLDER")
    if tried.what == MAKING:
        severity, detour = WARNING, shell_line("sudo apt-get install squashfs-tools")
    if tried.answer.problem:
        fatal = [line for line in tried.answer.err.splitlines() if line.startswith("FATAL")]
        evidence = "\n".join(fatal[-1:]) or tried.answer.shown
        fix = _cause(tried.answer.err) or detour
        return ABOUT.finding(tried.what, severity, tried.answer.problem, evidence, fix)
    if tried.unpacked:
        says = "works, but unpacks the image first: slow, and large in memory or /tmp"
        return ABOUT.warning(tried.what, says, tried.answer.err.strip(), detour)
    return ABOUT.ok(tried.what, "works", f"/bin/true ended after {tried.seconds:.2f} s")


def _cause(output: str) -> Fix | None:
    """Return what to type against a cause that the runtime's own words name."""
    return next((fix for words, fix in CAUSES.items() if words in output), None)
