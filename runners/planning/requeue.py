"""Requeueing: when the ranks get a signal before the limit, and how often the job restarts."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.model import AGENTS, ImageAccess, JobSpec, LauncherName, RuntimeName, SchedulerName
from ..core.plan import ChoiceId, Interruption, Launching, Staging, Variable, Where
from ..core.remedy import Remedy, change
from ..core.site import Profile
from ..runtimes import FILES
from ..schedulers import capabilities
from ..schedulers.base import limit_seconds
from .case import Case, DecisionLog
from .staging import signals_end_mounts

CHOICES = (ChoiceId.REQUEUE, ChoiceId.SIGNAL)
RESUME = "RESUME"  # the variable by which a trainer goes on
LIMIT = 10  # restarts; also of those that Slurm makes itself, which it counts too
SECONDS = 120  # to end a step and to write a checkpoint; Slurm may warn a minute earlier
STEP_END_SECONDS = Profile.step_end_seconds
RESTARTS_PREEMPTED = (24, 11)  # the first known to do so when the script has ended; 22.05 does not
# Ran with Open MPI 5 on the host: a preempted job's mpirun lost its daemon, and ended with 0.
NOT_ALONG: Mapping[LauncherName, str] = {
    LauncherName.HOROVODRUN: "which does not forward signals to the ranks",
    **dict.fromkeys(AGENTS, "which ends its ranks on a signal and forwards none"),
    LauncherName.MPIRUN: "whose daemons a preempted job loses before the ranks have saved",
}


def choose(case: Case, launching: Launching, staging: Staging, log: DecisionLog) -> Interruption:
    """Choose when the ranks are warned, and how often the job may come back."""
    spec = case.spec
    signal: int | None = None
    if spec.requeue or spec.signal is not None:
        _possible(spec, launching, log)
    limit = (spec.requeue_limit or LIMIT) if spec.requeue else 0
    if spec.requeue:
        _requeued(limit, launching.scheduler, log)
    if (limit or spec.signal is not None) and capabilities(launching.scheduler).warns:
        _signals_reach_only_ranks(case, launching.runtime, staging, log)
        given = spec.signal is not None
        reason = case.why(ChoiceId.SIGNAL) if given else "time to finish a step and save"
        evidence = "sbatch(1), --signal: it may come up to 60 s earlier"
        signal = log.choose(ChoiceId.SIGNAL, _seconds(spec), reason, evidence)
    preempted = slurm_restarts_preempted(case.site.slurm_version)
    ends = step_end_seconds(case, launching)
    return Interruption(spec.requeue, signal, limit, preempted, ends)


def variables(interruption: Interruption) -> tuple[Variable, ...]:
    """Return the variable by which a packaged trainer resumes."""
    resumes = Variable(RESUME, "auto", "a requeued job resumes", where=Where.CONTAINER)
    return (resumes,) if interruption.requeue_limit else ()


def step_end_seconds(case: Case, launching: Launching) -> int:
    """Return when the script ends a step after a rank has failed; 0 where srun is told not to.

    An agent such as torchrun may restart its ranks, and ends by itself.
    """
    by_srun = launching.launcher is LauncherName.SRUN and capabilities(launching.scheduler).warns
    goes_on = any(arg.startswith(("--kill-on-bad-exit", "-K")) for arg in case.spec.srun_args)
    if not by_srun or goes_on:
        return 0
    return case.site.profile.step_end_seconds if case.site.profile else STEP_END_SECONDS


def slurm_restarts_preempted(version: str) -> bool:
    """Whether Slurm of a version, such as "24.11.5", does so itself; not where it is unknown."""
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return known >= RESTARTS_PREEMPTED


def _requeued(limit: int, scheduler: SchedulerName, log: DecisionLog) -> None:
    queue = capabilities(scheduler)
    if queue.warns:
        reason = "at the time limit or on preemption; it resumes from its checkpoint"
        log.choose(ChoiceId.REQUEUE, limit, reason)
    else:
        by = f"by {queue.title}, on preemption or node failure"
        log.choose(ChoiceId.REQUEUE, True, by)


def _seconds(spec: JobSpec) -> int:
    """Return the seconds of warning: as asked, else at most half of a short time limit."""
    if spec.signal is not None:
        return spec.signal
    whole = limit_seconds(spec.resources.time or "")
    return SECONDS if whole is None else min(SECONDS, whole // 2)


def _possible(spec: JobSpec, launching: Launching, log: DecisionLog) -> None:
    """Refuse what the scheduler or the launcher cannot do."""
    scheduler, launcher = capabilities(launching.scheduler), launching.launcher
    for option, remedy in _asked(spec):
        does_it_itself = scheduler.requeues and not scheduler.warns and option == "--requeue"
        if not scheduler.warns and not does_it_itself:
            here = f"{scheduler.title} does not support it"
            what = here if scheduler.queue else "this machine has no queue"
            log.refuse("not-with-scheduler", f"{option} is Slurm only: {what}", "", remedy)
        elif launcher in NOT_ALONG and not does_it_itself:
            what = f"{option} does not work with --launcher {launcher}"
            log.refuse(
                "not-with-launcher", what, NOT_ALONG[launcher], change(leave_out=["launcher"])
            )


def _asked(spec: JobSpec) -> list[tuple[str, Remedy]]:
    """Return the options that were given, each with what to type instead."""
    options = (
        ("--requeue", spec.requeue, change(requeue=False)),
        ("--requeue-limit", spec.requeue_limit, change(leave_out=["requeue-limit"])),
        ("--signal", spec.signal is not None, change(leave_out=["signal"])),
    )
    return [(option, remedy) for option, given, remedy in options if given]


def _signals_reach_only_ranks(
    case: Case, runtime: RuntimeName, staging: Staging, log: DecisionLog
) -> None:
    """Warn where that is not so, and each rank mounts its image itself."""
    held = staging.image in (ImageAccess.MOUNTED, ImageAccess.UNPACKED)
    mounted = case.image.size and not held and runtime in FILES
    if signals_end_mounts(case.spec, case.site) and mounted:
        log.warn(
            "image-unmounted-by-signals",
            f"this Slurm has ProctrackType={case.site.proctrack}: its signals also end the process "
            "that mounts the ranks' image, before they can save",
            change(stage_image=ImageAccess.MOUNTED.value),
        )
