"""The container does not come up: its image, a folder to bind, or the runtime on the node."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename
from shlex import quote

from ..core.remedy import Remedy, change, command
from ..injob import failure_kinds as kinds
from ..script.checks import EXIT_NOT_VERIFIED
from .explanation import Finding, Signature
from .facts import Facts, Line, LogPattern
from .finding_helpers import certain, logs

GONE = LogPattern("could not open image", r"^FATAL\b.*could not open image (\S+): .*no such file")
DAMAGED = LogPattern(
    "FATAL",
    r"^FATAL\b.*(?:Something went wrong trying to read the squashfs image|image format not "
    r"recognized|squashfuse(?:_ll)? exited|unable to read (?:SIF|squashfs)|unexpected EOF)",
)
NO_SOURCE = LogPattern("mount source ", r"^FATAL\b.*mount source (\S+) doesn't exist")
# What is in /proc or /dev, and what is below another bound folder in which the user may not write
NO_TARGET = LogPattern(
    "FATAL",
    r"^FATAL\b.*(?:destination (?=\S+ doesn't exist in container)"
    r"|failed to create (?=\S+ directory: mkdir ))(\S+)",
)
NO_PROGRAM = LogPattern(
    "executable file not found", r'FATAL\b.*"([^"]+)": executable file not found'
)
NO_RUNTIME = LogPattern(
    "execve()", r"^slurmstepd.*: error: execve\(\): (\S+): No such file or directory"
)
NO_NAMESPACE = LogPattern("namespace", r"^(?:FATAL|ERROR)\b.*user namespace")
BECAUSE = "the container runtime says so, before any rank could start"


def _found(facts: Facts, mark: LogPattern) -> tuple[Line, str] | None:
    """Return the first line of nobody's with a mark, and what its pattern captures."""
    line = next((one for one in facts.lines(mark) if one.rank is None), None)
    if line is None or facts.record:
        return None  # a rank that left a record had its container
    match = re.search(mark.pattern, line.text)
    return line, (match.group(1) if match and match.groups() else "")


def _told(
    mark: LogPattern, cause: str, fix: Callable[[Facts, str], Remedy]
) -> Callable[[Facts], Finding | None]:
    """Return the judgement of what one line tells: {what} is what the mark's pattern captures."""

    def judge(facts: Facts) -> Finding | None:
        found = _found(facts, mark)
        if not found:
            return None
        line, what = found
        why = cause.format(what=what, image=facts.image)
        return certain(facts, why, fix(facts, what), line, because=BECAUSE)

    return judge


image_missing = _told(
    GONE,
    "the image {what} is not there on the node: removed, or on no shared folder",
    lambda facts, what: change(first=f"ls -l {quote(what)}"),
)
image_damaged = _told(
    DAMAGED,
    "the image {image} is damaged: it is cut short, or was overwritten",
    lambda facts, what: command("runner", "verify", facts.image),
)
bind_missing = _told(
    NO_SOURCE,
    "the folder {what}, which is to be bound, does not exist on the node",
    lambda facts, what: change(first=f"ls -ld {quote(what)}"),
)
program_missing = _told(
    NO_PROGRAM,
    "the image {image} has no {what}",
    lambda facts, what: change(image="horovod_cpu.sif"),
)


def namespace(facts: Facts) -> Finding | None:
    """The node does not let users have namespaces of their own."""
    found = _found(facts, NO_NAMESPACE)
    if not found:
        return None
    cause = (
        "the node does not let users run containers: user namespaces are switched off there; an "
        "administrator can switch them on, or install apptainer-suid"
    )
    fix = change(exclude=facts.first.host) if facts.first else logs(facts)
    return certain(facts, cause, fix, found[0], because=BECAUSE)


def bind_target(facts: Facts) -> Finding | None:
    """The place at which something is to be bound is not there, and cannot be made."""
    found = _found(facts, NO_TARGET)
    if not found:
        return None
    line, place = found
    cause = f"something is to be bound at {place}, which is not there and cannot be made there"
    fix = _bound_elsewhere(facts, basename(place)) or logs(facts)
    return certain(facts, cause, fix, line, because=BECAUSE)


def _bound_elsewhere(facts: Facts, name: str) -> Remedy | None:
    """Return the fix that binds below /mnt what was to be bound at a place of this name."""
    binds = [str(value) for value in facts.job.typed.values("bind")]
    at = re.compile(rf"(?<=:)[^:]*/{re.escape(name)}(?=:|$)")
    moved = [at.sub(lambda _: f"/mnt/{name}", bind) for bind in binds]
    if moved == binds:
        return None
    return change(bind=moved, leave_out=["bind"])


def runtime_missing(facts: Facts) -> Finding | None:
    """The container runtime of the login node is not on the node."""
    found = _found(facts, NO_RUNTIME)
    if not found:
        return None
    cause = f"there is no {found[1]} on the node, though there is one where the job was launched"
    because = "Slurm's daemon could not start it on the node"
    fix = change(module=found[1])
    return certain(facts, cause, fix, found[0], because=because)


def not_verified(facts: Facts) -> Finding | None:
    """The image is not the one that the policy allowed at the launch."""
    if facts.kind != kinds.IMAGE_CHANGED and facts.exit_code != EXIT_NOT_VERIFIED:
        return None
    cause = f"the image {facts.image} was changed between the launch and the start of the job"
    fix = change(first=f"runner verify {quote(facts.image)}")
    because = "the job's script compared its digest with the one that was verified"
    return certain(facts, cause, fix, because=because)


SIGNATURES = (
    Signature("image-missing", image_missing, (GONE,)),
    Signature("image-damaged", image_damaged, (DAMAGED,)),
    Signature("bind-missing", bind_missing, (NO_SOURCE,)),
    Signature("bind-target-missing", bind_target, (NO_TARGET,)),
    Signature("program-missing", program_missing, (NO_PROGRAM,)),
    Signature("runtime-missing", runtime_missing, (NO_RUNTIME,)),
    Signature("no-user-namespaces", namespace, (NO_NAMESPACE,)),
    Signature("image-changed", not_verified),
)
