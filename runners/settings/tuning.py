"""How Horovod is tuned: `--autotune`, `--cycle-time-ms` and the like."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Callable

from ..core.errors import NotFound, UsageError
from ..core.trainer import Tuning

# Horovod's fusion buffer: each rank allocates this size.
LARGEST_FUSION_MB = 4096
LONGEST_CYCLE_MS = 1000
FILE = re.compile(r"[\w.@%+=:, -]+", re.ASCII)


def read(get: Callable[[str], Any]) -> Tuning:
    """Return the settings that `get` gives by name; raise UsageError for one that cannot be."""
    cycle, fusion, seconds = (
        get(name) for name in ("cycle-time-ms", "fusion-threshold-mb", "start-timeout")
    )
    _within("cycle-time-ms", cycle, 0, LONGEST_CYCLE_MS, "1")
    _within("fusion-threshold-mb", fusion, 0, LARGEST_FUSION_MB, "64 (0: no fusion)")
    _within("start-timeout", seconds, 1, 86400, "120 (seconds)")
    timeline = _timeline(get("timeline-filename"))
    return Tuning(timeline, bool(get("autotune")), fusion, cycle, seconds)


def _within(name: str, value: float | None, least: int, most: int, example: str) -> None:
    if value is not None and not (math.isfinite(value) and least <= value <= most):
        raise UsageError(
            f"--{name} {value:g} must be from {least} to {most}",
            remedy=f"--{name} {example}",
            id="tuning-out-of-range",
        )


def _timeline(text: str | None) -> str | None:
    """Check the file: its folder has to be there, on this machine as on the nodes."""
    if text is None or (FILE.fullmatch(text) and text not in (".", "..")):
        return text
    path = Path(text)
    if not (path.is_absolute() and text.isprintable()):
        raise UsageError(
            f"--timeline-filename {text!r} is neither a name nor an absolute path",
            remedy="--timeline-filename timeline.json, which will lie in the run's folder",
            id="timeline-malformed",
        )
    if not path.parent.is_dir():
        raise NotFound(
            f"--timeline-filename {text}: there is no folder {path.parent}",
            id="timeline-folder-missing",
        )
    return text
