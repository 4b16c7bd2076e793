"""No room left where the run writes: nobody could record it, but it can be seen."""

from __future__ import annotations

from ..core.job_record import JobState
from ..core.remedy import command
from ..jobs import srun_messages
from .explanation import Certainty, Finding, Signature
from .facts import Facts, LogPattern

TOO_LITTLE = 2**20  # bytes: less than the log and the records of an end
WARNED = LogPattern(
    "No space left on device", "^(?:warning: |runner: )"
)  # trainers' words, and the shim's


def full(facts: Facts) -> Finding | None:
    """The file system of the run's folder is full at this moment, or was when the ranks wrote."""
    now = facts.free is not None and facts.free < TOO_LITTLE
    lines = facts.lines(WARNED)
    if not now and (not lines or facts.error):
        return None
    root = str(facts.paths.root)
    free = (
        (f"{facts.free // 1024} KiB are free there now",) if now and facts.free is not None else ()
    )
    return Finding(
        f"no space left where the run writes, {root}: records and the end of the log are lost",
        (*free, *(lines[:3] or facts.log.last[-3:])),
        command("df", "-h", root),
        Certainty.LIKELY,
        "the job failed without a word of another cause",
    )


def records_lost(facts: Facts) -> Finding | None:
    """A rank's shim labelled its lines, and left no record of its end, as it always does.

    Where srun's line was written it says 1; the job's own exit code may be lost too.
    """
    first = facts.first
    unsaid = not facts.log.errors if first is None else srun_messages.code(first.how) == 1
    ran = any(line.rank is not None for line in facts.log.last)
    if facts.state != JobState.FAILED or facts.record or not (unsaid and ran):
        return None
    return Finding(
        f"no rank could record why it failed: {facts.paths.root} was full, or at its quota",
        facts.log.last[-3:],
        command("df", "-h", str(facts.paths.root)),
        Certainty.UNSURE,
        "the shim of each rank records how it failed, and none did",
    )


SIGNATURES = (Signature("disk-full", full, (WARNED,)), Signature("disk-full", records_lost))
