"""Ranks that were killed by a signal: out of memory, a crash, or from outside."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from ..contract.enums import Controller
from ..core.job_record import JobState
from ..core.model import ImageAccess, SchedulerName
from ..core.remedy import Remedy, advice, change
from .explanation import Certainty, Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import certain, finding, likely, record_of, signal_of, who
from .fixes import all_logs, go_on, logs, resume, since

# slurmstepd, where Slurm limits memory by control groups: `Detected 1 oom_kill event in StepId=...`
OOM = LogPattern("oom_kill event", r"^slurmstepd.*: error: Detected \d+ oom_kill events?")
OOM_TASK = LogPattern("Out Of Memory", r"^srun: error: \S+: tasks? [\d,-]+: Out Of Memory")
ONE_WORLD = LogPattern("runner: one world of")
UNIT = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
FAULTS: Mapping[int, str] = {
    signal.SIGSEGV: "invalid memory access",
    signal.SIGBUS: "a memory-mapped file was truncated or overwritten, or shared memory is full",
    signal.SIGABRT: "a library aborted; the lines above say why",
    signal.SIGFPE: "integer division by zero; on H20 GPUs a fault of cuBLAS before 12.4.5.8",
    signal.SIGILL: "its CPU lacks an instruction that the program was compiled for",
}
# What neither a fault nor SIGKILL is
SENT: Mapping[int, str] = {
    signal.SIGXCPU: "used up the limit of CPU time (ulimit -t) of the shell that launched the job",
    signal.SIGXFSZ: "wrote a file larger than the limit (ulimit -f) of the shell that launched it",
    signal.SIGHUP: "was ended by SIGHUP: the session or program that had started it was closed",
    signal.SIGTERM: "was ended by SIGTERM: a launcher, a watchdog, Slurm or a person asked for it",
    signal.SIGINT: "was interrupted by SIGINT, as by Ctrl-C, `scancel --signal INT` or a launcher",
    signal.SIGPIPE: "was ended by SIGPIPE: it wrote to a program or connection that had ended",
}
LIMITS: Mapping[int, str] = {signal.SIGXCPU: "-t", signal.SIGXFSZ: "-f"}  # options of ulimit


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


def crashed(facts: Facts) -> Explanation | None:
    """The program itself crashed, in a library most likely."""
    number = signal_of(facts)
    if number not in FAULTS:
        return None
    cause = f"{who(facts)} crashed with {signal.Signals(number).name}: {FAULTS[number]}"
    because = "the signal is raised by the program's own fault; it does not tell the line"
    return likely(facts, cause, logs(facts), *facts.log.last[-5:], because=because)


def killed(facts: Facts) -> Explanation | None:
    """SIGKILL from somebody: Slurm's own are told otherwise."""
    if signal_of(facts) != signal.SIGKILL:
        return None
    cause = f"{who(facts)} was killed with SIGKILL, from outside of the trainer"
    if facts.plan.controller is Controller.MPI and not facts.line(ONE_WORLD):
        because = (
            "so Slurm ends a job whose MPI gives up at its start, before the log has why; "
            "or the node was short of memory"
        )
        return finding(cause, record_of(facts), go_on(facts), Certainty.UNSURE, because)
    because = (
        "no program sends that to itself; Slurm says nothing of memory, so it was the node's "
        "administrator, a clean-up of the node's, or its kernel for want of memory"
    )
    return likely(facts, cause, go_on(facts), because=because)


def unanswered(facts: Facts) -> Explanation | None:
    """Somebody's signal asked a trainer of the user's own to save, and it does not know how."""
    if signal_of(facts) != signal.SIGUSR1 or signal.SIGUSR1 not in facts.fields.get("asked", ()):
        return None
    because = "the signal came through the job's script, and its default action ended the trainer"
    cause = f"{who(facts)} was asked to save and stop by SIGUSR1, which its trainer does not handle"
    return certain(facts, cause, _without_warning(facts) or logs(facts), because=because)


def _without_warning(facts: Facts) -> Remedy | None:
    """Return the launch whose ranks are not warned before the limit; None where they were not."""
    interruption, typed = facts.plan.interruption, facts.job.typed
    if interruption.signal is None:
        return None
    gone = [name for name in ("signal", "requeue-limit") if typed.text(name)]
    return change({"requeue": False} if interruption.requeue else {}, leave_out=gone)


def ended(facts: Facts) -> Explanation | None:
    """A limit of the shell, or somebody's signal, and no line of the log tells more."""
    number = signal_of(facts)
    if number not in SENT:
        return None
    limit = LIMITS.get(number, "")
    return finding(
        f"{who(facts)} {SENT[number]}",
        (*record_of(facts), *facts.log.errors[:3]),
        _without_limit(facts, limit) if limit else all_logs(facts),
        Certainty.LIKELY if limit else Certainty.UNSURE,
        "that is what the signal is for" if limit else "the signal does not tell who sent it",
    )


def _without_limit(facts: Facts, option: str) -> Remedy:
    """Return how a job gets no limit of the shell: sbatch's way, else in the shell itself."""
    if facts.job.scheduler == SchedulerName.SLURM:
        return change(sbatch_arg="--propagate=NONE")
    return advice(
        f"`ulimit {option} unlimited` in the shell that launches the job; a limit of the node's "
        "own is its administrator's"
    )


SIGNATURES = (
    Signature("out-of-memory", out_of_memory, Precedence.MEMORY, (OOM, OOM_TASK)),
    Signature("signal-not-handled", unanswered, Precedence.SIGNAL),
    Signature("image-unmounted", image_unmounted, Precedence.SIGNAL),
    Signature("rank-killed", killed, Precedence.SIGNAL, (ONE_WORLD,), state=JobState.FAILED),
    Signature("rank-crashed", crashed, Precedence.CRASH),
    Signature("rank-ended", ended, Precedence.ENDED),
)
