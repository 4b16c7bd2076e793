"""The container does not come up, or its image changes: the image, binds, the node's runtime."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from posixpath import basename
from shlex import quote
from typing import NamedTuple

from ..core.job_record import JobState
from ..core.remedy import Remedy, advice, change, command
from ..injob import failure_kinds as kinds
from ..script.ranks import EXIT_NOT_VERIFIED
from .explanation import Finding, Signature
from .facts import Facts, LogPattern
from .finding_helpers import AGAIN, certain, likely, logs, signal_of, who

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

# What reading from it leads to: a fault of the memory it is mapped to, or files that are not there
SIGNS = re.compile(
    r"Bus error|No module named|ImportError|Input/output error|bad marshal data|"
    r"shared object|invalid ELF|No such file"
)


class Row(NamedTuple):
    """What one line of the log means: {what} is what its pattern captures, {image} the image."""

    name: str
    pattern: LogPattern
    cause: str
    fix: Callable[[Facts, str], Remedy]
    because: str = "the container runtime says so, before any rank could start"


def _bound_elsewhere(facts: Facts, name: str) -> Remedy | None:
    """Return the fix that binds below /mnt what was to be bound at a place of this name."""
    binds = [str(value) for value in facts.job.typed.values("bind")]
    at = re.compile(rf"(?<=:)[^:]*/{re.escape(name)}(?=:|$)")
    moved = [at.sub(lambda _: f"/mnt/{name}", bind) for bind in binds]
    if moved == binds:
        return None
    return change(bind=moved, leave_out=["bind"])


def _image(facts: Facts, path: str) -> Remedy:
    """Return the fix for an image that is not on the node: it may be here, on this machine."""
    if facts.image_here:
        return advice(f"copy {path} into a folder that the nodes share, and give --image that one")
    return change(first=f"ls -l {quote(path)}")


ROWS = (
    Row(
        "image-missing",
        GONE,
        "the image {what} is not there on the node: removed, or on no shared folder",
        _image,
    ),
    Row(
        "image-damaged",
        DAMAGED,
        "the image {image} is damaged: it is cut short, or was overwritten",
        lambda facts, what: command("runner", "verify", facts.image),
    ),
    Row(
        "bind-missing",
        NO_SOURCE,
        "the folder {what}, which is to be bound, does not exist on the node",
        lambda facts, what: change(first=f"ls -ld {quote(what)}"),
    ),
    Row(
        "bind-target-missing",
        NO_TARGET,
        "something is to be bound at {what}, which is not there and cannot be made there",
        lambda facts, what: _bound_elsewhere(facts, basename(what)) or logs(facts),
    ),
    Row(
        "program-missing",
        NO_PROGRAM,
        "the image {image} has no {what}",
        lambda facts, what: change(image="horovod_cpu.sif"),
    ),
    Row(
        "runtime-missing",
        NO_RUNTIME,
        "there is no {what} on the node, though there is one where the job was launched",
        lambda facts, what: change(module=what),
        "Slurm's daemon could not start it on the node",
    ),
    Row(
        "no-user-namespaces",
        NO_NAMESPACE,
        "the node does not let users run containers: user namespaces are switched off there; an "
        "administrator can switch them on, or install apptainer-suid",
        lambda facts, what: change(exclude=facts.first.host) if facts.first else logs(facts),
    ),
)


def _judgement(row: Row) -> Callable[[Facts], Finding | None]:
    def judge(facts: Facts) -> Finding | None:
        line = next((one for one in facts.lines(row.pattern) if one.rank is None), None)
        if line is None or facts.record:
            return None  # a rank that left a record had its container
        found = re.search(row.pattern.pattern, line.text)
        what = found[1] if found and found.groups() else ""
        cause = row.cause.format(what=what, image=facts.image)
        return certain(facts, cause, row.fix(facts, what), line, because=row.because)

    return judge


def overwritten(facts: Facts) -> Finding | None:
    """The image is newer than the job, and the first rank could not read from it."""
    first = facts.first
    if not facts.image_newer or facts.state != JobState.FAILED or first is None:
        return None
    words = first.how if facts.record is None else facts.error
    if signal_of(facts) != signal.SIGBUS and not SIGNS.search(words):
        return None
    return likely(
        facts,
        f"the image {facts.image} was written over after the job was submitted, and {who(facts)} "
        f"could not read what it was before: {first.how}",
        AGAIN,
        because="the image is newer than the job; `mv new.sif old.sif` instead of `cp` would have "
        "left the running ranks the old one",
    )


def not_verified(facts: Facts) -> Finding | None:
    """The image is not the one that the policy allowed at the launch."""
    if facts.kind != kinds.IMAGE_CHANGED and facts.exit_code != EXIT_NOT_VERIFIED:
        return None
    cause = f"the image {facts.image} was changed between the launch and the start of the job"
    fix = change(first=f"runner verify {quote(facts.image)}")
    because = "the job's script compared its digest with the one that was verified"
    return certain(facts, cause, fix, because=because)


SIGNATURES = (
    Signature("image-overwritten", overwritten),
    *(Signature(row.name, _judgement(row), (row.pattern,)) for row in ROWS),
    Signature("image-changed", not_verified),
)
