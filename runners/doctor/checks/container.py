"""Container runtime -> findings."""

from __future__ import annotations

from ...core.remedy import Remedy, advice, command, line
from ...core.site import Site
from ..facts.container import Container, Run
from ..finding import FAILURE, OK, WARNING, Finding

SUBJECT = "containers"
LOAD = command("module", "load", "apptainer")
# Words of the runtime when it starts a container, and what helps.
CAUSES = {
    "mount source": line(
        "unset APPTAINER_BIND APPTAINER_BINDPATH SINGULARITY_BIND SINGULARITY_BINDPATH"
    ),
    "unknown userid": advice(
        "getent passwd $(id -u)    (the runtime needs a name for your number)"
    ),
    "no space left on device": advice("export APPTAINER_TMPDIR=FOLDER, on scratch"),
    "setting up user namespace": line("sudo sysctl -w user.max_user_namespaces=15000"),
}


def absent(site: Site) -> list[Finding]:
    """Return the finding of a machine without a runtime; the nodes of a cluster may have one."""
    evidence = "neither apptainer nor singularity is on the PATH"
    if site.runtimes:
        says = ", ".join(site.runtimes)
        return [Finding(SUBJECT, "runtime", OK, says, "what it can do is seen in a job: --job")]
    if site.schedulers:
        says = "none on this machine; the nodes have to have one"
        return [Finding(SUBJECT, "runtime", WARNING, says, evidence, LOAD)]
    says = "none on this machine, and no scheduler that leads to others: nothing can run"
    return [Finding(SUBJECT, "runtime", FAILURE, says, evidence, LOAD)]


def check(found: Container) -> list[Finding]:
    """Return what can be said of the runtime; of one that does not answer, only that."""
    if found.version.problem:
        says = f"{found.command} does not answer: {found.version.problem}"
        fix = _cause(found.version.err) or LOAD
        return [Finding(SUBJECT, "runtime", FAILURE, says, found.version.shown, fix)]
    return [
        _runtime(found),
        _namespaces(found),
        _subordinate(found),
        _mounts(found),
        *_builds(found),
        *map(run, found.runs),
    ]


def _runtime(found: Container) -> Finding:
    how = "with a setuid part" if found.setuid else "without setuid, through user namespaces"
    says = found.version.out.strip() or "says no version"
    return Finding(SUBJECT, "runtime", OK, says, f"{found.command}, installed {how}")


def _namespaces(found: Container) -> Finding:
    name = "user namespaces"
    if not found.namespace.problem:
        return Finding(SUBJECT, name, OK, "allowed", found.namespace.command)
    told = [f"{key} = {value}" for key, value in found.settings.items()]
    evidence = "\n".join([found.namespace.shown, *told])
    state = WARNING if found.setuid else FAILURE
    says = "not allowed here: nothing can be built, and without setuid nothing can run"
    return Finding(SUBJECT, name, state, says, evidence, advice(found.remedy))


def _subordinate(found: Container) -> Finding:
    name = "subordinate ids"
    missing = [file for file in ("subuid", "subgid") if not _has(found, file)]
    if not missing and found.tools.get("newuidmap"):
        says = "there are some for this user"
        return Finding(SUBJECT, name, OK, says, "\n".join(found.subordinate))
    lacks = " and ".join([*(f"no line in /etc/{file}" for file in missing)] or ["no newuidmap"])
    says = f"{lacks}: images with several owners cannot be built in the best way"
    return Finding(SUBJECT, name, WARNING, says, "\n".join(found.subordinate), advice(found.remedy))


def _has(found: Container, file: str) -> bool:
    return any(f"/{file}:" in line for line in found.subordinate)


def _mounts(found: Container) -> Finding:
    name = "image mounts"
    evidence = "\n".join(f"{tool}: {path or 'not here'}" for tool, path in found.tools.items())
    evidence += f"\n/dev/fuse: {'usable' if found.fuse else 'not usable'}"
    if found.setuid or (found.fuse and found.tools.get("squashfuse")):
        says = "by the setuid part" if found.setuid else "by squashfuse"
        return Finding(SUBJECT, name, OK, says, evidence)
    says = "no squashfuse: each start unpacks the whole image first, into memory or /tmp"
    fix = advice("sudo apt-get install squashfuse    (on RPM systems: sudo dnf install squashfuse)")
    return Finding(SUBJECT, name, WARNING, says, evidence, fix)


def _builds(found: Container) -> list[Finding]:
    if not found.builds:
        return []
    works = [mode for mode, _ in found.builds if mode]
    evidence = "\n".join(text for _, text in found.builds)
    if not works:
        says = "no way of building works here; finished images can be pulled"
        fix = _cause("".join(tried.answer.err for tried in found.runs)) or advice(found.remedy)
        return [Finding(SUBJECT, "building", WARNING, says, evidence, fix)]
    names = ", ".join(dict.fromkeys(mode.name for mode in works))
    return [Finding(SUBJECT, "building", OK, names, evidence)]


def run(tried: Run) -> Finding:
    """Return the finding of one start."""
    name = f"running {tried.what}" if not tried.what.startswith("making") else tried.what
    if tried.answer.problem:
        fatal = [line for line in tried.answer.err.splitlines() if line.startswith("FATAL")]
        evidence = "\n".join(fatal[-1:]) or tried.answer.shown
        # A sandbox or an unpacked image is a detour; without a SIF that runs there is nothing.
        state = FAILURE if tried.what in ("a SIF file", "the image") else WARNING
        fix = _cause(tried.answer.err) or _detour(tried.what)
        return Finding(SUBJECT, name, state, tried.answer.problem, evidence, fix)
    if tried.unpacked and "unpacked" not in tried.what:
        says = "works, but unpacks the image first: slow, and large in memory or /tmp"
        return Finding(SUBJECT, name, WARNING, says, tried.answer.err.strip(), _detour(tried.what))
    return Finding(SUBJECT, name, OK, "works", f"/bin/true ended after {tried.seconds:.2f} s")


def _cause(said: str) -> Remedy | None:
    """Return what to type against a cause that the runtime's own words name."""
    return next((fix for words, fix in CAUSES.items() if words in said), None)


def _detour(what: str) -> Remedy:
    if what.startswith("making"):
        return line("sudo apt-get install squashfs-tools")
    return advice("apptainer build --sandbox FOLDER IMAGE, and --image FOLDER")
