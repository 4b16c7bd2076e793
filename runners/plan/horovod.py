"""Horovod's own knobs: what was asked, as the variables that Horovod reads."""

from __future__ import annotations

from pathlib import Path

from ..core.model import BindMount, JobSpec
from ..core.tokens import Expanded
from .case import Case
from .log import Log

MB = 1 << 20
TIMELINE, AUTOTUNED = "timeline-filename", "autotune.csv"


def variables(case: Case, log: Log) -> None:
    """Set HOROVOD_* as asked; what the user has exported is kept, and told."""
    tuning = case.spec.tuning
    if tuning.timeline is not None:
        log.set("HOROVOD_TIMELINE", _in_run(tuning.timeline), case.why(TIMELINE))
        log.choose(TIMELINE, tuning.timeline, case.why(TIMELINE))
    if tuning.autotune:
        log.set("HOROVOD_AUTOTUNE", "1", case.why("autotune"))
        log.set("HOROVOD_AUTOTUNE_LOG", _in_run(AUTOTUNED), case.why("autotune"))
        log.choose("autotune", True, case.why("autotune"), f"what it tried: {AUTOTUNED}")
    if tuning.fusion_threshold_mb is not None:
        value, why = tuning.fusion_threshold_mb, case.why("fusion-threshold-mb")
        log.set("HOROVOD_FUSION_THRESHOLD", str(value * MB), why)
        log.choose("fusion-threshold-mb", value, why)
    if tuning.cycle_time_ms is not None:
        cycle, why = tuning.cycle_time_ms, case.why("cycle-time-ms")
        log.set("HOROVOD_CYCLE_TIME", f"{cycle:g}", why)
        log.choose("cycle-time-ms", cycle, why)
    if tuning.start_timeout is not None:
        _start(case, tuning.start_timeout, log)


def _start(case: Case, limit: int, log: Log) -> None:
    seconds, launcher = str(limit), log.chosen("launcher")
    if launcher == "horovodrun":
        log.set("HOROVOD_START_TIMEOUT", seconds, "--start-timeout, for horovodrun's own checks")
    if log.chosen("controller") == "gloo":
        log.set("HOROVOD_GLOO_TIMEOUT_SECONDS", seconds, case.why("start-timeout"))
        log.choose("start-timeout", limit, case.why("start-timeout"))
    elif launcher != "horovodrun":
        log.warn(
            f"--start-timeout {seconds} has no effect: with MPI the ranks wait for each other as "
            f"long as {launcher} lets them"
        )


def _in_run(name: str) -> str:
    """Return the path of a file; a plain name is one of the run's folder."""
    return name if name.startswith("/") else Expanded(f"$run/{name}")


def binds(spec: JobSpec) -> tuple[BindMount, ...]:
    """Return the folder of a timeline that is not to lie in the run's own."""
    timeline = spec.tuning.timeline
    if timeline is None or not timeline.startswith("/"):
        return ()
    folder = str(Path(timeline).parent)
    return (BindMount(folder, folder),)
