"""Fallback signatures: a full disk, an exception, an exit code, or no evidence."""

from __future__ import annotations

from dataclasses import replace

from ..core.diagnosis import Certainty
from ..core.job_record import JobState
from ..core.remedy import command
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import finding
from .fixes import logs
from .lost_ranks import exit_code as exit_code_of

SHOWN = 8  # lines of a failure that nobody knows
TOO_LITTLE = 2**20  # bytes: less than the log and the records of an end
# What Slurm says of a step that ended: with which code, and that it ends the others
OF_THE_END = ("srun: error: ", "slurmstepd: error: *** ", "error: *** ")
# Trainers' words, and the shim's
WARNED = LogPattern("No space left on device", "^(?:warning: |runner: )")


def full(facts: Facts) -> Explanation | None:
    """The file system of the run's folder is full at this moment, or was when the ranks wrote."""
    now = facts.free is not None and facts.free < TOO_LITTLE
    lines = facts.lines(WARNED)
    if not now and (not lines or facts.error):
        return None
    root = facts.paths.root
    free = [f"{(facts.free or 0) // 1024} KiB are free there now"] if now else []
    cause = f"no space left where the run writes, {root}: records and the end of the log are lost"
    because = "the job failed, and nothing points to another cause"
    shown, fix = (*free, *(lines[:3] or facts.log.last[-3:])), command("df", "-h", root)
    return finding(cause, shown, fix, Certainty.LIKELY, because)


def records_lost(facts: Facts) -> Explanation | None:
    """A rank's shim labelled its lines, and left no record of its end, as it always does.

    Where srun's line was written it says 1; the job's own exit code may be lost too.
    """
    first = facts.first
    unsaid = not facts.log.errors if first is None else exit_code_of(first.how) == 1
    ran = any(line.rank is not None for line in facts.log.last)
    if facts.record or facts.of_text or not (unsaid and ran):
        return None
    root = facts.paths.root
    cause = f"no rank could record why it failed: {root} was full, or at its quota"
    because = "the shim of each rank records how it failed, and none did"
    shown, fix = facts.log.last[-3:], command("df", "-h", root)
    return finding(cause, shown, fix, Certainty.UNSURE, because)


def unknown(facts: Facts) -> Explanation:
    """What is known of a failure that no signature explains."""
    first, errors = facts.first, facts.log.errors
    if facts.of_text and first is None:
        return _unknown_text(facts)
    lines = [line for line in errors if line.rank in (None, first.rank if first else None)]
    if first is None:
        lines = lines or list(errors)
        code = "" if facts.exit_code is None else f", exit code {facts.exit_code}"
        cause = f"the job ended ({facts.state.value}{code}) and no rank left a record of why"
        because = "no rank says what happened"
    else:
        lines = [line for line in lines if not line.text.startswith(OF_THE_END)]
        failed = "was the first to fail" if first.alike == 1 else "failed"
        cause = f"{first.name} {failed}: {first.how}"
        because = "no signature knows it; these are the first lines that look like errors"
        because = because if lines else "no error is logged"
    seen = lines[:SHOWN] or facts.log.last[-SHOWN:]
    record = first.evidence if first else ()
    return finding(cause, (*record, *seen), logs(facts), Certainty.UNSURE, because)


def _unknown_text(facts: Facts) -> Explanation:
    """Return the lines that look like errors of a log in which no signature finds anything."""
    cause = "the text has no error that is known"
    if seen := facts.log.errors[:SHOWN]:
        because = "these lines look like errors"
        return finding(cause, seen, logs(facts), Certainty.UNSURE, because)
    because = "no line looks like an error"
    nothing = finding(cause, facts.log.last[-3:], logs(facts), Certainty.UNSURE, because)
    return replace(nothing, remedies=())


SIGNATURES = (
    Signature("disk-full", full, Precedence.RUN_DISK, (WARNED,)),
    Signature("disk-full", records_lost, Precedence.RUN_DISK + 1, state=JobState.FAILED),
)
