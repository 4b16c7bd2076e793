"""Horovod's own knobs: what was asked, as the variables that Horovod reads."""

from __future__ import annotations

from pathlib import Path

from ..core.model import BindMount, JobSpec
from ..core.tokens import Expanded
from .choices import Notes

MB = 1 << 20


def variables(spec: JobSpec, controller: str, launcher: str, notes: Notes) -> None:
    """Set HOROVOD_* as asked; what the user has exported is kept, and told."""
    tuning = spec.tuning
    if tuning.timeline is not None:
        _set("HOROVOD_TIMELINE", _in_run(tuning.timeline), "timeline", notes)
    if tuning.autotune:
        _set("HOROVOD_AUTOTUNE", "1", "autotune", notes)
        _set("HOROVOD_AUTOTUNE_LOG", _in_run("autotune.csv"), "autotune", notes)
    if tuning.fusion_threshold_mb is not None:
        value = str(tuning.fusion_threshold_mb * MB)
        _set("HOROVOD_FUSION_THRESHOLD", value, "fusion threshold", notes)
    if tuning.cycle_time_ms is not None:
        _set("HOROVOD_CYCLE_TIME", f"{tuning.cycle_time_ms:g}", "cycle time", notes)
    if tuning.start_timeout is not None:
        _start(str(tuning.start_timeout), controller, launcher, notes)


def _start(seconds: str, controller: str, launcher: str, notes: Notes) -> None:
    if launcher == "horovodrun":
        notes.set("HOROVOD_START_TIMEOUT", seconds, "--start-timeout, for horovodrun's own checks")
    if controller == "gloo":
        _set("HOROVOD_GLOO_TIMEOUT_SECONDS", seconds, "start time-out", notes)
    elif launcher != "horovodrun":
        notes.warn(
            f"--start-timeout {seconds} has no effect: with MPI the ranks wait for each other as "
            f"long as {launcher} lets them"
        )


def _set(name: str, value: str, what: str, notes: Notes) -> None:
    notes.set(name, value, "as asked")
    notes.choose(what, f"{name}={value}", "as asked")


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
