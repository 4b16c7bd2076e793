"""The interface for Gloo, and the variables that Horovod, MPI and the site's network need."""

from __future__ import annotations

from pathlib import Path

from ..core.model import BindMount, Controller, ImageInfo, InRun, JobSpec
from ..core.plan import Launching
from ..injob.rank.hardware import older
from . import site_rules
from .case import Case, DecisionLog, Value

MEASURED = (
    "docs/guides/speed.md: without it 0.98 and 0.93 of the speed on two idle cores, half where "
    "other work shares the cores"
)
MB = 1 << 20
TIMELINE, AUTOTUNED = "timeline-filename", "autotune.csv"


def choose(case: Case, launching: Launching, controller: Controller, log: DecisionLog) -> None:
    """Choose Gloo's interface, and the variables that Horovod, MPI and the network need."""
    _interface(case, controller, log)
    _horovod_variables(case, launching, controller, log)
    _variables(case, launching.runtime, controller, log)


def _interface(case: Case, controller: Controller, log: DecisionLog) -> None:
    """Say which interface Gloo will use; MPI and NCCL choose by themselves or by the site's."""
    asked = case.spec.interface
    if controller is not Controller.GLOO:
        return
    if asked:
        log.choose("interface", asked, case.why("network-interfaces"))
    elif case.resources.nodes == 1:
        log.choose("interface", "loopback", "all ranks are on one node")
    else:
        reason = "each node uses the one that routes to rank 0's node"
        log.choose("interface", "detected on the nodes", reason)


def _variables(case: Case, runtime: str, controller: Controller, log: DecisionLog) -> None:
    """Set what MPI in containers and what the site's network needs."""
    site, by_mpi = case.site, controller is Controller.MPI
    if by_mpi and runtime != "none":
        _mpi_in_containers(case, log)
    if by_mpi:
        _give_way(case, log)
    if by_mpi and case.image.fact("mpi.flavour") == "mpich" and not case.spec.host_mpi:
        _may_hang(case.image, log)
    if site.profile:
        log.variables += site_rules.variables(case.spec, site.profile)
    for name in [v.name for v in log.variables if v.name in site.environment]:
        log.warn(f"your {name}={site.environment[name]} is kept")


def _give_way(case: Case, log: DecisionLog) -> None:
    """Open MPI waits by asking again and again, which takes a core from the computation."""
    resources = case.resources
    name = "OMPI_MCA_mpi_yield_when_idle"
    if resources.overcommit:
        log.set(name, "1", "ranks that share a CPU yield it while they wait")
    elif not resources.wants_gpus and case.image.fact("mpi.flavour") in ("", "openmpi"):
        reason = "on CPUs Horovod's thread shares a rank's cores with training"
        log.set(name, "1", reason)
        log.choose("mpi-gives-way", True, reason, MEASURED)


def _mpi_in_containers(case: Case, log: DecisionLog) -> None:
    """Each rank has a user namespace of its own, and the PMIx of another version outside."""
    if case.image.fact("mpi.flavour") == "mpich":
        if not case.spec.host_mpi:
            _mpich(case.image, log)
        return
    log.set(
        "OMPI_MCA_btl_vader_single_copy_mechanism",
        "none",
        "ranks in separate user namespaces cannot copy each other's memory",
    )
    # Slurm 22.05 with PMIx 4 complains of ds12's lock on every rank, seen with Open MPI 4.1.
    log.set("PMIX_MCA_gds", "hash", "the image's PMIx shares no memory with the host's")


def _mpich(image: ImageInfo, log: DecisionLog) -> None:
    """MPICH without the shared memory of UCX; its device is such as ch4:ucx or ch4:ofi."""
    device = image.fact("mpi.device")
    why = "UCX's shared memory does not work across the ranks' user namespaces"
    if "ofi" in device or not device:
        log.set("MPIR_CVAR_CH4_NETMOD", "ofi", why)
    if "ofi" not in device:
        log.set("UCX_TLS", "^sm", why)


def _may_hang(image: ImageInfo, log: DecisionLog) -> None:
    """Warn of an MPICH that may not end, in a container and without one."""
    device, version = image.fact("mpi.device"), image.fact("mpi.version")
    if "ofi" not in device and older(version or "0", "4.2"):
        # MPICH issue 6596; seen with 4.0.2 in one of six short jobs, and without a container.
        log.warn(
            f"MPICH {version or 'of unknown version'} over UCX may hang in MPI_Finalize, like all "
            "before 4.2; use a newer one, or --controller gloo"
        )


def _horovod_variables(
    case: Case, launching: Launching, controller: Controller, log: DecisionLog
) -> None:
    """Set HOROVOD_* as asked; what the user has exported is kept, and told."""
    tuning = case.spec.tuning

    def asked(setting: str, value: Value, variable: str, text: str | InRun) -> None:
        log.set(variable, text, case.why(setting))
        log.choose(setting, value, case.why(setting))

    if tuning.timeline is not None:
        asked(TIMELINE, tuning.timeline, "HOROVOD_TIMELINE", _in_run(tuning.timeline))
    if tuning.autotune:
        log.set("HOROVOD_AUTOTUNE", "1", case.why("autotune"))
        log.set("HOROVOD_AUTOTUNE_LOG", InRun(AUTOTUNED), case.why("autotune"))
        log.choose("autotune", True, case.why("autotune"), f"log: {AUTOTUNED}")
    if (threshold := tuning.fusion_threshold_mb) is not None:
        asked("fusion-threshold-mb", threshold, "HOROVOD_FUSION_THRESHOLD", str(threshold * MB))
    if (cycle := tuning.cycle_time_ms) is not None:
        asked("cycle-time-ms", cycle, "HOROVOD_CYCLE_TIME", f"{cycle:g}")
    if tuning.start_timeout is not None:
        _start(case, tuning.start_timeout, launching.launcher, controller, log)


def _start(case: Case, limit: int, launcher: str, controller: Controller, log: DecisionLog) -> None:
    seconds = str(limit)
    if launcher == "horovodrun":
        log.set("HOROVOD_START_TIMEOUT", seconds, "--start-timeout, for horovodrun's own checks")
    if controller is Controller.GLOO:
        log.set("HOROVOD_GLOO_TIMEOUT_SECONDS", seconds, case.why("start-timeout"))
        log.choose("start-timeout", limit, case.why("start-timeout"))
    elif launcher != "horovodrun":
        log.warn(
            f"--start-timeout {seconds} has no effect: with MPI the ranks wait for each other as "
            f"long as {launcher} lets them"
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
