"""Ranks that were killed by a signal: out of memory, a crash, or from outside."""

from __future__ import annotations

import re
import signal

from ..core.job_record import JobState
from ..core.model import ImageAccess
from ..core.remedy import Remedy, change
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import certain, likely, signal_of, who
from .fixes import resume, since

# slurmstepd, where Slurm limits memory by control groups: `Detected 1 oom_kill event in StepId=...`
OOM = LogPattern("oom_kill event", r"^slurmstepd.*: error: Detected \d+ oom_kill events?")
OOM_TASK = LogPattern("Out Of Memory", r"^srun: error: \S+: tasks? [\d,-]+: Out Of Memory")
UNIT = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)


def out_of_memory(facts: Facts) -> Explanation | None:
    """The kernel killed it, since the job's memory on the node was used up."""
    lines = [*facts.lines(OOM), *facts.lines(OOM_TASK)]
    if not lines and facts.state != JobState.OUT_OF_MEMORY:
        return None
    cause = f"{who(facts)} was killed: the job ran out of memory on that node"
    because = "Slurm saw the kernel's out-of-memory killer in the job's control group"
    return certain(facts, cause, _more_memory(facts), *lines[:3], because=because)


def _more_memory(facts: Facts) -> Remedy:
    """Return twice what was asked for, or all of the node's: a finer answer needs measuring."""
    match = UNIT.fullmatch(facts.resources.mem or "")
    if match and int(match[1]):
        return change(mem=f"{2 * int(match[1])}{match[2] or 'M'}")
    return change(mem="0")


def image_unmounted(facts: Facts) -> Explanation | None:
    """Slurm's signal ended the process that shows the container its files, and so the ranks."""
    interruption, access = facts.plan.interruption, facts.plan.staging.image
    warned = facts.fields.get("asked") if facts.record else interruption.requeue_limit
    if signal_of(facts) != signal.SIGBUS or not (warned or interruption.signal is not None):
        return None
    if access is ImageAccess.UNPACKED or not facts.has_image:
        return None
    # A mount that did not help fell back to the file on that node.
    way = ImageAccess.UNPACKED if access is ImageAccess.MOUNTED else ImageAccess.MOUNTED
    return likely(
        facts,
        f"{who(facts)} lost its image (SIGBUS): Slurm's signal also ended squashfuse, which shows "
        f"the container its files{since(facts)}",
        change(stage_image=way.value, arguments=resume(facts)),
        because="without control groups Slurm signals every process of a rank; one mount for all "
        "ranks of a node blocks the signals, and an unpacked image needs none",
    )


SIGNATURES = (
    Signature("out-of-memory", out_of_memory, Precedence.MEMORY, (OOM, OOM_TASK)),
    Signature("image-unmounted", image_unmounted, Precedence.SIGNAL + 2),
)
