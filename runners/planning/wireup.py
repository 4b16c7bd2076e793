"""How N processes join one process group: controller, srun --mpi, the image's MPI, the gate.

What an MPI in the image needs of what starts it is in pmi.py.
"""

from __future__ import annotations

from ..contract.enums import Controller, ProcessGroup
from ..core.model import (
    AGENTS,
    ImageInfo,
    LauncherName,
    MpiFlavour,
    SchedulerName,
)
from ..core.plan import ChoiceId, Launching, Wireup
from ..core.remedy import change, command
from ..runtimes import ssh_possible
from ..schedulers import capabilities
from . import cost_model, pmi
from .case import Case, DecisionLog, RankResources
from .pmi import PmiClient


def controller(
    case: Case, resources: RankResources, scheduler: SchedulerName, log: DecisionLog
) -> Controller:
    """Choose Horovod's controller."""
    name, reason, evidence = _controller(case, scheduler, log)
    log.choose(ChoiceId.CONTROLLER, name, reason, evidence)
    ranks, in_image = resources.tasks, case.image.listed("horovod.controllers")
    if name is Controller.GLOO and (meeting := cost_model.meeting_in_words(ranks)):
        remedies = [change(controller="mpi")] if "mpi" in (in_image or "mpi") else []
        log.warn(
            "gloo-slow", f"the Gloo rendezvous of {ranks:,} ranks is slow: {meeting}", *remedies
        )
    return name


def _controller(
    case: Case, scheduler: SchedulerName, log: DecisionLog
) -> tuple[Controller, str, str]:
    """Return the controller, the reason and the evidence."""
    spec, image = case.spec, case.image
    controllers = image.listed("horovod.controllers")
    known = image.how("horovod.controllers")
    requested = spec.controller
    if spec.launcher in AGENTS and requested in (None, Controller.NONE):
        return Controller.NONE, f"{spec.launcher}'s ranks are not Horovod's", ""
    if requested is None and spec.trainer.world in (ProcessGroup.TORCH, ProcessGroup.TENSORFLOW):
        reason = f"{spec.trainer.name} exchanges gradients by {spec.trainer.world}"
        return Controller.NONE, reason, ""
    if requested is None and spec.trainer.is_alone:
        return Controller.NONE, f"{spec.trainer.name} is one process, which trains no network", ""
    if requested is not None:
        if controllers and requested not in (*controllers, Controller.NONE):
            log.refuse(
                "controller-missing",
                f"the Horovod in {image.path.name} has no {requested} controller",
                known,
            )
        return requested, case.why(ChoiceId.CONTROLLER), ""
    if spec.host_mpi and "mpi" in (controllers or "mpi"):
        return Controller.MPI, "the host's MPI is to be used", ""
    if image.fact("horovod.version") == "none":
        return Controller.NONE, f"there is no Horovod in {image.path.name}", ""
    if not controllers:
        reason = "the image's controllers are unknown; Gloo needs nothing from the host"
        return Controller.GLOO, reason, known
    if "mpi" in controllers and _is_at_hand(case, scheduler):
        reason = f"the image has PMIx {image.fact('pmix.version')} and srun offers --mpi=pmix"
        return Controller.MPI, reason, image.how("pmix.version")
    if "gloo" in controllers:
        return Controller.GLOO, _why_not_mpi(case, scheduler), known
    return Controller.MPI, "the only one in the image", ""


def _is_at_hand(case: Case, scheduler: SchedulerName) -> bool:
    """Whether MPI works without any setting, which of all pairs only PMIx with PMIx promises."""
    spec = case.spec
    by_srun = (
        spec.launcher in (None, LauncherName.SRUN)
        and LauncherName.SRUN in capabilities(scheduler).launchers
    )
    fits = pmi.client(case.image) is PmiClient.PMIX and "pmix" in case.site.mpi_types
    return by_srun and fits and (spec.mpi is None or spec.mpi.startswith("pmix"))


def _why_not_mpi(case: Case, scheduler: SchedulerName) -> str:
    if capabilities(scheduler).one_machine:
        return "Gloo needs no launcher on one machine"
    if "mpi" not in case.image.listed("horovod.controllers"):
        return "the only one in the image"
    if pmi.client(case.image) is not PmiClient.PMIX:
        return "the image's MPI has no PMIx"
    if not case.site.mpi_types and LauncherName.SRUN in capabilities(scheduler).launchers:
        return "the PMI types of srun are unknown here"
    if "pmix" not in case.site.mpi_types:
        return "srun offers no --mpi=pmix"
    return "Gloo needs nothing from the launcher"


def choose(
    case: Case,
    resources: RankResources,
    launching: Launching,
    controller: Controller,
    log: DecisionLog,
) -> Wireup:
    """Choose srun's --mpi=, and refuse what would not become one world."""
    launcher = launching.launcher
    if launcher is LauncherName.HOROVODRUN:
        _by_horovodrun(case.image, resources, launching, controller, log)
    if launcher is LauncherName.SRUN:
        return Wireup(controller, _srun_type(case, controller, log))
    if launcher in AGENTS:
        _by_agents(resources, launcher, controller, log)
        return Wireup(controller)
    if controller is Controller.MPI and pmi.client(case.image) is PmiClient.NONE:
        _no_mpi(case, log)
    if launcher is LauncherName.MPIRUN:
        _by_mpirun(case, controller, log)
    if case.spec.mpi:
        log.warn(
            "mpi-type-unused",
            f"--mpi {case.spec.mpi} has no effect: {launcher} starts the ranks, not srun",
        )
    return Wireup(controller)


def _by_agents(
    resources: RankResources, launcher: LauncherName, controller: Controller, log: DecisionLog
) -> None:
    """Refuse what an agent on each node, which starts that node's ranks, cannot do."""
    if controller is not Controller.NONE:
        what = f"--launcher {launcher} sets up torch.distributed's process group, not Horovod"
        log.refuse(
            "agents-without-horovod",
            what,
            "",
            change(leave_out=["controller"]),
            change(leave_out=["launcher"]),
        )
    if resources.tasks % resources.nodes:
        what = f"--launcher {launcher} starts the same number of ranks on every node"
        more = change(ntasks=resources.tasks_of_a_node * resources.nodes)
        log.refuse(
            "agents-ranks-uneven", what, f"{resources.tasks} ranks on {resources.nodes} nodes", more
        )
    if resources.gpus_per_task:
        what = f"--launcher {launcher} assigns each rank a GPU of its node"
        log.refuse(
            "agents-gpus-per-task",
            what,
            "--gpus-per-task hides them",
            change(leave_out=["gpus-per-task"]),
        )


def _no_mpi(case: Case, log: DecisionLog) -> None:
    log.refuse(
        "no-mpi", f"there is no MPI in {case.image.path.name}", case.image.how("mpi.version")
    )


def reaches_nodes_by_ssh(resources: RankResources, launching: Launching) -> bool:
    """Whether horovodrun starts ranks on other nodes by the job's own ssh."""
    several = launching.launcher is LauncherName.HOROVODRUN and resources.nodes > 1
    return several and ssh_possible(launching.scheduler, launching.runtime)


def _by_horovodrun(
    image: ImageInfo,
    resources: RankResources,
    launching: Launching,
    controller: Controller,
    log: DecisionLog,
) -> None:
    nodes = resources.nodes
    if reaches_nodes_by_ssh(resources, launching):
        log.choose(
            ChoiceId.SSH, True, "horovodrun starts ranks on other nodes by it: steps of this job"
        )
    elif nodes > 1:
        log.refuse(
            "horovodrun-nodes",
            f"--launcher horovodrun cannot reach {nodes} nodes: it starts ranks on the others by "
            "ssh, which leads out of the container",
            "a job's own ssh needs Slurm and Apptainer",
        )
    if controller is Controller.MPI and image.mpi is MpiFlavour.MPICH:
        log.refuse(
            "horovodrun-mpich",
            f"horovodrun does not know the mpirun of MPICH in {image.path.name}",
            f"{image.how('mpi.version')}; seen with 5.0.2: 'Unknown MPI implementation given'",
        )


def _by_mpirun(case: Case, controller: Controller, log: DecisionLog) -> None:
    """The mpirun is the host's; what it offers has to be what the image's MPI speaks."""
    image, mpirun = case.image, case.site.mpirun
    if not mpirun and case.site.profile:
        log.choose(
            ChoiceId.MPIRUN, "of the nodes", "not checked here; its MPI is assumed to be compatible"
        )
        return
    if not mpirun:
        log.refuse(
            "mpirun-missing",
            "--launcher mpirun: there is no mpirun on this machine",
            "mpirun is not on the PATH, or does not say what it is",
            command("module", "load", "openmpi"),
        )
        return
    log.choose(ChoiceId.MPIRUN, str(mpirun), "this machine's, expected on the nodes too")
    by_own_mpirun = controller is Controller.MPI and not case.spec.host_mpi
    problem = pmi.against_mpirun(image, mpirun) if by_own_mpirun else ""
    if problem:
        log.refuse(
            "mpirun-mismatch", problem, f"{image.how('mpi.flavour')}; {image.how('mpi.version')}"
        )


def _srun_type(case: Case, controller: Controller, log: DecisionLog) -> str:
    image, spoken = case.image, pmi.spoken(case.image)
    if case.spec.mpi:
        mpi = log.choose(ChoiceId.MPI, case.spec.mpi, case.why(ChoiceId.MPI))
    elif controller is Controller.GLOO:
        mpi = log.choose(ChoiceId.MPI, "none", "Gloo needs no PMI")
    elif controller is Controller.NONE:
        mpi = _without_horovod(case, log)
    else:
        wanted, name = (spoken.srun, spoken.name) if spoken else ("pmix", "unknown: the default")
        reason = f"the PMI of the image's MPI ({name})"
        mpi = log.choose(ChoiceId.MPI, wanted, reason, image.how("mpi.flavour"))
    _check_type(mpi, case, controller, log)
    return mpi


def _without_horovod(case: Case, log: DecisionLog) -> str:
    """Choose srun's --mpi= for programs that may use the image's MPI themselves, as mpi4py does."""
    spoken = pmi.spoken(case.image)
    if spoken and spoken.srun in case.site.mpi_types:
        reason = f"the image's MPI speaks {spoken.name}, and a program may use it"
        return log.choose(ChoiceId.MPI, spoken.srun, reason, case.image.how("mpi.flavour"))
    return log.choose(ChoiceId.MPI, "none", "nothing is known to need PMI")


def _check_type(mpi: str, case: Case, controller: Controller, log: DecisionLog) -> None:
    """Refuse a type that cannot work with this Slurm, image and controller."""
    image, offered = case.image, case.site.mpi_types
    if offered and mpi not in offered:
        log.refuse(
            "mpi-type-missing",
            f"this Slurm has no --mpi={mpi}",
            f"srun --mpi=list: {', '.join(offered)}",
        )
    elif controller is not Controller.MPI:
        return
    elif pmi.client(image) is PmiClient.NONE:
        _no_mpi(case, log)
    else:
        problem = pmi.against_srun(image, mpi)
        if problem:
            log.refuse(
                "mpi-type-mismatch",
                problem,
                f"{image.how('mpi.flavour')}; {image.how('pmix.version')}",
            )
