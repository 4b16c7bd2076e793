"""Execution: scheduler, container runtime, launcher, profiler."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from ..contract.enums import Controller
from ..contract.rank_command import ALL, parse_ranks
from ..core.model import AGENTS, LauncherName, Resources, RuntimeName, SchedulerName
from ..core.plan import ChoiceId, Launching
from ..core.remedy import advice, change, command
from ..core.site import Site
from ..schedulers import capabilities
from .case import Case, DecisionLog, RankResources, SettingName, Start

ASSUMED = "not on this machine; assumed on the nodes"
BY_SRUN = (LauncherName.SRUN, *AGENTS)
WHY_LAUNCHER: Mapping[LauncherName, str] = {
    LauncherName.SRUN: "Slurm starts, counts and ends the ranks itself",
    LauncherName.MPIEXEC: "the scheduler's own launcher, which knows the job's nodes",
    LauncherName.MPIRUN: "the host's mpirun, with the job's node list",
    LauncherName.LOCAL: "one container, one process per rank",
}


def scheduler(case: Case, log: DecisionLog) -> SchedulerName:
    """Choose who queues the job."""
    wanted, site = case.spec.scheduler, case.site
    name, reason, evidence = _by_itself(site)
    if wanted:
        name, reason, evidence = wanted, case.why(ChoiceId.SCHEDULER), ""
    log.choose(ChoiceId.SCHEDULER, name, reason, evidence)
    if wanted:
        _is_here(wanted, site, log)
    nodes, tasks = case.spec.resources.nodes, case.spec.resources.tasks
    if capabilities(name).one_machine and nodes > 1:
        what = f"--nodes {nodes} needs a scheduler, and this is one machine"
        log.refuse("one-machine", what, reason, change(nodes=1, ntasks=tasks))
    return name


def ranks(
    case: Case, resources: Resources, scheduler: SchedulerName, log: DecisionLog
) -> RankResources:
    """Return what is asked for, with the nodes and ranks of a surrounding job."""
    within_job = capabilities(scheduler).within_job
    if case.spec.trainer.is_alone:
        resources = _one_rank(case, resources, log)
    elif within_job:
        resources = _its_tasks(case, _all_nodes(case, resources, log), log)
    if within_job:
        _inside(resources.nodes, case.site, log)
    return RankResources(resources)


def _one_rank(case: Case, resources: Resources, log: DecisionLog) -> Resources:
    """Leave out the ranks of a node that a site's profile has for trainers."""
    typed = not case.is_unasked(ChoiceId.NTASKS_PER_NODE)
    if resources.ntasks_per_node in (None, 1) or typed:
        return resources
    log.choose(ChoiceId.NTASKS_PER_NODE, 1, f"{case.spec.trainer.name} is one process")
    return replace(resources, ntasks_per_node=1)


def _all_nodes(case: Case, resources: Resources, log: DecisionLog) -> Resources:
    """Take all nodes of the surrounding job where nobody asked for a number, as srun does."""
    site = case.site
    nodes = min(site.allocated_nodes, resources.ntasks or site.allocated_nodes)
    if not case.is_unasked(ChoiceId.NODES) or resources.nodelist or nodes <= resources.nodes:
        return resources
    log.choose(ChoiceId.NODES, nodes, f"from job {site.allocation}")
    return replace(resources, nodes=nodes)


def _its_tasks(case: Case, resources: Resources, log: DecisionLog) -> Resources:
    """Take as many ranks a node as the surrounding job has, where nobody asked for a number."""
    site = case.site
    given: dict[SettingName, int | None] = {
        "ntasks": resources.ntasks,
        ChoiceId.NTASKS_PER_NODE: resources.ntasks_per_node,
    }
    requested = [name for name, value in given.items() if value and not case.is_unasked(name)]
    tasks = site.allocated_tasks
    if requested or not tasks or (resources.ntasks_per_node or 1) == tasks:
        return resources
    log.choose(ChoiceId.NTASKS_PER_NODE, tasks, f"from job {site.allocation}")
    return replace(resources, ntasks=None, ntasks_per_node=tasks)


def _is_here(wanted: SchedulerName, site: Site, log: DecisionLog) -> None:
    wanted_scheduler, profile = capabilities(wanted), site.profile
    theirs = profile.scheduler if profile and site.remote_site else None
    if profile and theirs and wanted_scheduler.queue and wanted is not theirs:
        has = capabilities(theirs).title
        what = f"there is no {wanted_scheduler.title} on {profile.name}, which has {has}"
        log.refuse("scheduler-not-at-site", what, "its profile", change(leave_out=["scheduler"]))
    elif site.remote_site:
        return
    elif wanted_scheduler.queue and wanted not in site.schedulers:
        what = f"there is no {wanted_scheduler.title} on this machine"
        remedy = advice("run the same command on a login node of the cluster")
        log.refuse(
            "scheduler-missing", what, f"{wanted_scheduler.command} is not on the PATH", remedy
        )


def expected_scheduler(wanted: SchedulerName | None, site: Site) -> SchedulerName:
    """Return the scheduler of jobs that ask for `wanted`, None for any."""
    return wanted or _by_itself(site)[0]


def _by_itself(site: Site) -> tuple[SchedulerName, str, str]:
    """Return who queues jobs here, why, and what that rests on."""
    profile, queues = site.profile, [name for name in SchedulerName if capabilities(name).queue]
    if profile and profile.scheduler in queues and not site.schedulers:
        return profile.scheduler, f"the scheduler of {profile.name}", "its profile"
    for name in queues:
        if name in site.schedulers:
            reason = f"{capabilities(name).command} is on this machine"
            if site.allocation:
                reason += f"; --scheduler allocation would run within job {site.allocation}"
            return name, reason, ""
    return SchedulerName.LOCAL, "no sbatch on this machine", ""


def _inside(nodes: int, site: Site, log: DecisionLog) -> None:
    if not site.allocation:
        log.refuse(
            "not-in-allocation",
            "--scheduler allocation: this is not within a job",
            "SLURM_JOB_ID is not set",
            command("salloc", "--nodes", nodes),
        )
    elif nodes > site.allocated_nodes:
        log.refuse(
            "allocation-nodes",
            f"job {site.allocation} has {site.allocated_nodes} nodes, fewer than --nodes {nodes}",
            f"SLURM_JOB_NUM_NODES is {site.allocated_nodes}",
            change(nodes=site.allocated_nodes),
        )


def runtime(case: Case, scheduler: SchedulerName, log: DecisionLog) -> RuntimeName:
    """Choose what runs the image."""
    spec, site, queue = case.spec, case.site, capabilities(scheduler)
    name, reason, evidence = _runtime_by_itself(site, queue.one_machine)
    if spec.runtime:
        here = (RuntimeName.NONE, *site.runtimes, site.runtime)
        missing = spec.runtime not in here
        name, reason = spec.runtime, case.why(ChoiceId.RUNTIME)
        evidence = ASSUMED if missing else ""
        if missing and not queue.queue:
            log.refuse(
                "runtime-missing", f"there is no {name} on this machine", "it is not on the PATH"
            )
    elif queue.one_machine and not site.runtime:
        log.refuse(
            "no-runtime",
            "there is no container runtime on this machine",
            "neither apptainer nor singularity is on the PATH",
            command("module", "load", "apptainer"),
        )
    return log.choose(ChoiceId.RUNTIME, name, reason, evidence)


def expected_runtime(
    wanted: RuntimeName | None, scheduler: SchedulerName | None, site: Site
) -> RuntimeName:
    """Return the runtime of jobs that ask for `wanted` and that scheduler, None for any."""
    one_machine = capabilities(expected_scheduler(scheduler, site)).one_machine
    return wanted or _runtime_by_itself(site, one_machine)[0]


def _runtime_by_itself(site: Site, one_machine: bool) -> tuple[RuntimeName, str, str]:
    """Return what runs images here, why, and what that rests on."""
    if site.runtime:
        return site.runtime, "found on this machine", ""
    if site.profile and site.profile.runtimes and not one_machine:
        return site.profile.runtimes[0], f"the runtime of {site.profile.name}", "its profile"
    return RuntimeName.APPTAINER, ASSUMED, ""


def launcher(
    case: Case,
    scheduler: SchedulerName,
    runtime: RuntimeName,
    controller: Controller,
    log: DecisionLog,
) -> Launching:
    """Choose what starts the ranks; return it with the scheduler and the runtime."""
    spec, launchers = case.spec, capabilities(scheduler).launchers
    alone = capabilities(scheduler).one_machine
    name = spec.launcher or launchers[0]
    why = case.why(ChoiceId.LAUNCHER) if spec.launcher else WHY_LAUNCHER[name]
    if not spec.launcher and alone and controller is Controller.MPI:
        why = "one container; the image's mpirun starts the ranks in it"
    if name not in launchers:
        what = f"--launcher {name} does not work with --scheduler {scheduler}"
        log.refuse("launcher-with-scheduler", what, f"which has {', '.join(launchers)}")
    log.choose(ChoiceId.LAUNCHER, name, why)
    if spec.error and name not in BY_SRUN:
        what = f"srun writes the --error file, but {name} starts the ranks"
        log.refuse(
            "error-file-needs-srun",
            what,
            "the job's output contains everything",
            change(leave_out=["error"]),
        )
    return Launching(scheduler, runtime, name)


def architecture(case: Case, scheduler: SchedulerName, log: DecisionLog) -> None:
    """Only a login node can be of another kind than the machines of the job."""
    here, of_image = case.site.architecture, case.image.architecture
    by_nodes = case.reasons.get(ChoiceId.ARCHITECTURE, "")
    if by_nodes:
        log.choose(ChoiceId.ARCHITECTURE, of_image, by_nodes)
    if not here or not of_image or here == of_image:
        return
    if capabilities(scheduler).one_machine:
        message = f"{case.image.path.name} is for {of_image} and this machine is {here}"
        log.refuse("architecture-of-machine", message, "", advice(f"build or pull it for {here}"))
    elif not by_nodes:
        reason = f"this machine is {here}, the nodes must be {of_image}"
        log.choose(ChoiceId.ARCHITECTURE, of_image, reason)


def log_files(case: Case, scheduler: SchedulerName, log: DecisionLog) -> None:
    """Refuse patterns in the names of --output and --error where nobody fills them in."""
    queue = capabilities(scheduler)
    for option, file in (("output", case.spec.output), ("error", case.spec.error)):
        if "%" in (file or "") and not queue.output_patterns:
            what = f"{queue.title} fills in no patterns such as %j"
            log.refuse("output-pattern", what, f"--{option} is {file}", change(leave_out=[option]))


def profiled(case: Case, start: Start, log: DecisionLog) -> None:
    """Record the profiler's command and ranks; refuse what cannot run."""
    profiling, launching = case.spec.profiling, start.launching
    if profiling is None:
        return
    log.choose(
        ChoiceId.PROFILE_WITH, profiling.command, case.why(ChoiceId.PROFILE_WITH), profiling.tool
    )
    log.choose(ChoiceId.PROFILE_RANKS, profiling.ranks, case.why(ChoiceId.PROFILE_RANKS))
    if launching.launcher in AGENTS:
        log.refuse(
            "profiler-with-launcher",
            f"--profile-with runs a rank's trainer, but {launching.launcher} starts the trainers",
            "",
            change(leave_out=["launcher"]),
        )
    tasks = start.resources.tasks
    last = max((rank_range[-1] for rank_range in parse_ranks(profiling.ranks) or ()), default=0)
    if last >= tasks:
        log.refuse(
            "profile-ranks",
            f"--profile-ranks {profiling.ranks}: there is no rank {last}",
            f"the job has {tasks} ranks, from 0",
            change(profile_ranks=ALL),
        )
    name = shlex.split(profiling.command)[0]
    brought = start.modules.names or case.site.remote_site
    if launching.runtime is RuntimeName.NONE and not profiling.tool and not brought:
        log.refuse(
            "profiler-missing",
            f"--profile-with: there is no {name} on this machine",
            "" if "/" in name else "it is not on the PATH",
            advice(f"the path of {name}, or --module NAME for a module that brings it"),
        )
