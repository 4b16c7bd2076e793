"""The interfaces for Gloo, and the variables that Horovod, MPI and the site's network need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..contract.enums import Controller
from ..contract.parts import NO_DISPLAY
from ..contract.versions import older
from ..core.model import BindMount, ImageInfo, InRun, JobSpec, LauncherName, MpiFlavour, RuntimeName
from ..core.plan import ChoiceId, Network, Variable
from . import site_rules
from .case import Case, DecisionLog, JobResources, Start, Value

MEASURED = (
    "measured on two CPU cores: without it training is 2 to 7 % slower, and half as fast while "
    "other programs use the same cores (docs/guides/speed.md)"
)
MB = 1 << 20
AUTOTUNED = "autotune.csv"


def choose(case: Case, start: Start, log: DecisionLog) -> Network:
    """Choose which interfaces Gloo may use; MPI and NCCL choose by themselves or by the site's."""
    interfaces = case.spec.network_interfaces
    if start.wireup.controller is not Controller.GLOO:
        return Network(interfaces)
    if interfaces:
        log.choose(
            ChoiceId.NETWORK_INTERFACES, ",".join(interfaces), case.why(ChoiceId.NETWORK_INTERFACES)
        )
    elif start.resources.nodes == 1:
        log.choose(ChoiceId.NETWORK_INTERFACES, "loopback", "all ranks are on one node")
    else:
        reason = "each node uses the one that routes to rank 0's node"
        log.choose(ChoiceId.NETWORK_INTERFACES, "detected on the nodes", reason)
    return Network(interfaces)


def variables(case: Case, start: Start, log: DecisionLog) -> tuple[Variable, ...]:
    """Return the variables that Horovod, MPI in containers and the site's network need."""
    site, by_mpi = case.site, start.wireup.controller is Controller.MPI
    needed = [*_horovod(case, start, log)]
    if by_mpi and start.launching.runtime is not RuntimeName.NONE:
        needed += _mpi_in_containers(case)
    if by_mpi:
        needed += [*_give_way(case, start.resources, log), *_abort_late(case.image)]
    if start.launching.launcher is LauncherName.MPIRUN:  # the host's: the ranks do so themselves
        needed.append(Variable(*NO_DISPLAY, "hwloc connects to no X display of the node"))
    if by_mpi and case.image.mpi is MpiFlavour.MPICH and not case.spec.host_mpi:
        _may_hang(case.image, log)
    if site.profile:
        needed += site_rules.variables(case.spec, start.resources, site.profile)
    return tuple(needed)


def _give_way(case: Case, resources: JobResources, log: DecisionLog) -> Iterator[Variable]:
    """Open MPI waits by asking again and again, which takes a core from the computation."""
    name = "OMPI_MCA_mpi_yield_when_idle"
    if resources.overcommit:
        yield Variable(name, "1", "ranks that share a CPU yield it while they wait")
    elif not resources.wants_gpus and _may_be_open_mpi(case.image):
        reason = "a rank that waits in MPI yields its CPU to the computation"
        yield Variable(name, "1", reason)
        log.choose(ChoiceId.MPI_YIELD_WHEN_IDLE, True, reason, MEASURED)


def _may_be_open_mpi(image: ImageInfo) -> bool:
    return image.mpi is MpiFlavour.OPEN_MPI or not image.fact("mpi.flavour")


def _abort_late(image: ImageInfo) -> Iterator[Variable]:
    """Of ranks that fail together, Slurm kills most before Open MPI's words are in the log."""
    if _may_be_open_mpi(image):
        reason = "a rank's last words reach the log before Slurm kills the others"
        yield Variable("OMPI_MCA_mpi_abort_delay", "1", reason)


def _mpi_in_containers(case: Case) -> Iterator[Variable]:
    """Each rank has a user namespace of its own, and the PMIx of another version outside."""
    if case.image.mpi is MpiFlavour.MPICH:
        if not case.spec.host_mpi:
            yield from _mpich(case.image)
        return
    yield Variable(
        "OMPI_MCA_btl_vader_single_copy_mechanism",
        "none",
        "ranks in separate user namespaces cannot copy each other's memory",
    )
    # Slurm 22.05 with PMIx 4 complains of ds12's lock on every rank, seen with Open MPI 4.1.
    yield Variable("PMIX_MCA_gds", "hash", "the image's PMIx shares no memory with the host's")


def _mpich(image: ImageInfo) -> Iterator[Variable]:
    """MPICH without the shared memory of UCX; its device is such as ch4:ucx or ch4:ofi."""
    device = image.fact("mpi.device")
    why = "UCX's shared memory does not work across the ranks' user namespaces"
    if "ofi" in device or not device:
        yield Variable("MPIR_CVAR_CH4_NETMOD", "ofi", why)
    if "ofi" not in device:
        yield Variable("UCX_TLS", "^sm", why)


def _may_hang(image: ImageInfo, log: DecisionLog) -> None:
    """Warn of an MPICH that may not end, in a container and without one."""
    device, version = image.fact("mpi.device"), image.fact("mpi.version")
    if "ofi" not in device and older(version or "0", "4.2"):
        # MPICH issue 6596; seen with 4.0.2 in one of six short jobs, and without a container.
        log.warn(
            "mpich-may-hang",
            f"MPICH {version or 'of unknown version'} over UCX may hang in MPI_Finalize, like all "
            "before 4.2; use a newer one, or --controller gloo",
        )


def _horovod(case: Case, start: Start, log: DecisionLog) -> Iterator[Variable]:
    """Yield HOROVOD_* as asked."""
    tuning = case.spec.tuning

    def chosen(setting: ChoiceId, value: Value, variable: str, text: str | InRun) -> Variable:
        log.choose(setting, value, case.why(setting))
        return Variable(variable, text, case.why(setting))

    if tuning.timeline is not None:
        where = _in_run(tuning.timeline)
        yield chosen(ChoiceId.TIMELINE_FILENAME, tuning.timeline, "HOROVOD_TIMELINE", where)
    if tuning.autotune:
        yield Variable("HOROVOD_AUTOTUNE", "1", case.why(ChoiceId.AUTOTUNE))
        yield Variable("HOROVOD_AUTOTUNE_LOG", InRun(AUTOTUNED), case.why(ChoiceId.AUTOTUNE))
        log.choose(ChoiceId.AUTOTUNE, True, case.why(ChoiceId.AUTOTUNE), f"log: {AUTOTUNED}")
    if (threshold := tuning.fusion_threshold_mb) is not None:
        text = str(threshold * MB)
        yield chosen(ChoiceId.FUSION_THRESHOLD_MB, threshold, "HOROVOD_FUSION_THRESHOLD", text)
    if (cycle := tuning.cycle_time_ms) is not None:
        yield chosen(ChoiceId.CYCLE_TIME_MS, cycle, "HOROVOD_CYCLE_TIME", f"{cycle:g}")
    if tuning.start_timeout is not None:
        yield from _start_timeout(case, tuning.start_timeout, start, log)


def _start_timeout(case: Case, limit: int, start: Start, log: DecisionLog) -> Iterator[Variable]:
    seconds, why = str(limit), case.why(ChoiceId.START_TIMEOUT)
    launcher = start.launching.launcher
    if launcher is LauncherName.HOROVODRUN:
        reason = "--start-timeout, for horovodrun's own checks"
        yield Variable("HOROVOD_START_TIMEOUT", seconds, reason)
    if start.wireup.controller is Controller.GLOO:
        yield Variable("HOROVOD_GLOO_TIMEOUT_SECONDS", seconds, why)
        log.choose(ChoiceId.START_TIMEOUT, limit, why)
    elif launcher is not LauncherName.HOROVODRUN:
        log.warn(
            "start-timeout-unused",
            f"--start-timeout {seconds} has no effect: with MPI the ranks wait for each other as "
            f"long as {launcher} lets them",
        )


def _in_run(name: str) -> str | InRun:
    """Return an absolute path as it is; a plain name is of a file in the run's folder."""
    return name if name.startswith("/") else InRun(name)


def timeline_binds(spec: JobSpec) -> tuple[BindMount, ...]:
    """Return the folder of a timeline that is not to lie in the run's own."""
    timeline = spec.tuning.timeline
    if timeline is None or not timeline.startswith("/"):
        return ()
    folder = str(Path(timeline).parent)
    return (BindMount(folder, folder),)
