"""Container failures: the image, bind mounts, the node's runtime."""

from __future__ import annotations

import re
import signal
from functools import partial
from posixpath import basename
from shlex import quote

from ..core.job_record import JobState
from ..core.remedy import Remedy, advice, change, command
from ..injob import failure_kinds as kinds
from ..script.ranks import EXIT_NOT_VERIFIED
from .explanation import Explanation, Signature
from .facts import Facts
from .finding_helpers import AGAIN, certain, likely, logs, signal_of, who
from .table import Named, Row, Seen, signatures

# What reading from it leads to: a fault of the memory it is mapped to, or files that are not there
SIGNS = re.compile(
    r"Bus error|No module named|ImportError|Input/output error|bad marshal data|"
    r"shared object|invalid ELF|No such file"
)


def _bound_elsewhere(facts: Facts, named: Named) -> Remedy:
    """Return the fix that binds below /mnt what was to be bound at a place of this name."""
    name = basename(named["what"])
    binds = [str(value) for value in facts.job.typed.values("bind")]
    at = re.compile(rf"(?<=:)[^:]*/{re.escape(name)}(?=:|$)")
    moved = [at.sub(lambda _: f"/mnt/{name}", bind) for bind in binds]
    return logs(facts) if moved == binds else change(bind=moved, leave_out=["bind"])


def _image(facts: Facts, named: Named) -> Remedy:
    """Return the fix for an image that is not on the node: it may be here, on this machine."""
    path = named["what"]
    if facts.image_here:
        return advice(f"copy {path} into a folder that the nodes share, and give --image that one")
    return change(first=f"ls -l {quote(path)}")


SAID = "the container runtime reports it, before any rank started"
_row = partial(Row, because=SAID)
ROWS = (
    _row(
        "image-missing",
        r"^FATAL\b.*could not open image (?P<what>\S+): .*no such file",
        "the image {what} does not exist on the node: it was removed, or its folder is not shared",
        _image,
        words="could not open image",
    ),
    _row(
        "image-damaged",
        r"^FATAL\b.*(?:Something went wrong trying to read the squashfs image|image format not "
        r"recognized|squashfuse(?:_ll)? exited|unable to read (?:SIF|squashfs)|unexpected EOF)",
        "the image {image} is damaged: it was truncated or overwritten",
        lambda facts, _: command("runner", "verify", facts.image),
        words="FATAL",
    ),
    _row(
        "bind-missing",
        r"^FATAL\b.*mount source (?P<what>\S+) doesn't exist",
        "the bind source {what} does not exist on the node",
        lambda _, named: change(first=f"ls -ld {quote(named['what'])}"),
        words="mount source ",
    ),
    # What is in /proc or /dev, and what is below another bound folder in which the user may not
    # write
    _row(
        "bind-target-missing",
        r"^FATAL\b.*(?:destination (?=\S+ doesn't exist in container)"
        r"|failed to create (?=\S+ directory: mkdir ))(?P<what>\S+)",
        "the bind target {what} does not exist in the container and cannot be created",
        _bound_elsewhere,
        words="FATAL",
    ),
    _row(
        "program-missing",
        r'FATAL\b.*"(?P<what>[^"]+)": executable file not found',
        "the image {image} has no {what}",
        change(image="horovod_cpu.sif"),
        words="executable file not found",
    ),
    _row(
        "runtime-missing",
        r"^slurmstepd.*: error: execve\(\): (?P<what>\S+): No such file or directory",
        "{what} does not exist on the node, but does where the job was launched",
        lambda _, named: change(module=named["what"]),
        because="Slurm's daemon could not start it on the node",
        words="execve()",
    ),
    _row(
        "no-user-namespaces",
        r"^(?:FATAL|ERROR)\b.*user namespace",
        "the node does not let users run containers: user namespaces are disabled there; an "
        "administrator can enable them, or install apptainer-suid",
        lambda facts, _: change(exclude=facts.first.host) if facts.first else logs(facts),
        words="namespace",
    ),
)


def _before_ranks(row: Row, facts: Facts) -> Seen:
    """See a line of no rank's; a rank that left a record had its container."""
    line = next((one for one in facts.lines(row.pattern) if one.rank is None), None)
    found = re.search(row.sign, line.text) if line else None
    return None if facts.record or not line or not found else (found.groupdict(), (line,))


def overwritten(facts: Facts) -> Explanation | None:
    """The image is newer than the job, and the first rank could not read from it."""
    first = facts.first
    if not facts.image_newer or first is None:
        return None
    words = first.how if facts.record is None else facts.error
    if signal_of(facts) != signal.SIGBUS and not SIGNS.search(words):
        return None
    return likely(
        facts,
        f"the image {facts.image} was overwritten after the job was submitted, and {who(facts)} "
        f"could not read what it was before: {first.how}",
        AGAIN,
        because="the image is newer than the job; `mv new.sif old.sif` instead of `cp` would have "
        "left the running ranks the old one",
    )


def not_verified(facts: Facts) -> Explanation | None:
    """The image is not the file that was launched."""
    if facts.kind != kinds.IMAGE_CHANGED and facts.exit_code != EXIT_NOT_VERIFIED:
        return None
    cause = f"the image {facts.image} was changed between the launch and the start of the job"
    fix = change(first=f"runner verify {quote(facts.image)}")
    because = "the job compared its digest with the recorded one"
    return certain(facts, cause, fix, because=because)


SIGNATURES = (
    Signature("image-overwritten", overwritten, state=JobState.FAILED),
    *signatures(ROWS, _before_ranks),
    Signature("image-changed", not_verified),
)
