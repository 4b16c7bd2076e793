"""Container failures that need facts of the run: its image, its bind mounts."""

from __future__ import annotations

import re
import signal
from posixpath import basename

from ..core.job_record import JobState
from ..core.remedy import Remedy, change
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import certain, likely, signal_of, who
from .fixes import AGAIN

# What reading from it leads to: a fault of the memory it is mapped to, or files that are not there
SIGNS = re.compile(
    r"Bus error|No module named|ImportError|Input/output error|bad marshal data|"
    r"shared object|invalid ELF|No such file"
)
BIND_VARIABLES = "APPTAINER_BIND APPTAINER_BINDPATH SINGULARITY_BIND SINGULARITY_BINDPATH"
# What is in /proc or /dev, and what is below another bound folder in which the user may not write
NO_TARGET = LogPattern(
    "FATAL",
    r"^FATAL\b.*(?:destination (?:\S+/mnt/session)?(?=/\S+ doesn't exist in container)"
    r"|failed to create (?!\S+/mnt/session)(?=\S+ directory: mkdir ))(?P<what>\S+)",
)
# Which is for apptainer.toml
WRITABLE = LogPattern("--writable", r"By using --writable, \w+ can't create")


def bind_target(facts: Facts) -> Explanation | None:
    """What is bound has no place in the container; a rank that left a record had its container."""
    seen = None if facts.record else facts.match(NO_TARGET)
    if not seen or facts.match(WRITABLE):
        return None
    line, match = seen
    cause = f"the bind target {match['what']} does not exist in the container and cannot be created"
    because = "the container runtime reports it, before any rank started"
    return certain(facts, cause, _elsewhere(facts, match["what"]), line, because=because)


def _elsewhere(facts: Facts, target: str) -> Remedy:
    """Return the fix that binds below /mnt what was to be bound there.

    What the launch does not bind comes from variables of the shell, or of the site's configuration.
    """
    planned = facts.plan.binds
    moved = tuple(_moved(bind, target) for bind in planned)
    if moved == planned:
        return change(first=f"unset {BIND_VARIABLES}", apptainer_arg="--no-mount=bind-paths")
    typed = tuple(map(str, facts.job.typed.values("bind")))  # with the sources as the user has them
    moved_typed = tuple(_moved(bind, target) for bind in typed)
    return change(bind=moved if moved_typed == typed else moved_typed, leave_out=["bind"])


def _moved(bind: str, target: str) -> str:
    """Return a bind with a place below /mnt, if it is the target, of its name or below it."""
    source, _, rest = bind.partition(":")
    place, _, mode = rest.partition(":")
    place = place or source
    if basename(place) != basename(target) and not place.startswith(target.rstrip("/") + "/"):
        return bind
    return ":".join(filter(None, (source, f"/mnt/{basename(place)}", mode)))


def overwritten(facts: Facts) -> Explanation | None:
    """The image is newer than the job, and the first rank could not read from it."""
    first = facts.first
    if not facts.image_newer or first is None:
        return None
    words = first.how if facts.record is None else facts.error
    if signal_of(facts) != signal.SIGBUS and not SIGNS.search(words):
        return None
    because = f"the {facts.environment} is newer than the job"
    if facts.has_image:
        because += (
            "; `mv new.sif old.sif` instead of `cp` would have left the running ranks the old one"
        )
    cause = (
        f"the {facts.environment} {facts.image} was overwritten after the job was submitted, and "
        f"{who(facts)} could not read what it was before: {first.how}"
    )
    return likely(facts, cause, AGAIN, because=because)


SIGNATURES = (
    Signature("image-overwritten", overwritten, Precedence.CONTAINER, state=JobState.FAILED),
    Signature("bind-target-missing", bind_target, Precedence.CONTAINER + 10, (NO_TARGET, WRITABLE)),
)
