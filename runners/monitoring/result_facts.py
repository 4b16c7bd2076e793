"""What of a result is shown: all that it has is in result.json, and in `runner result --json`."""

from __future__ import annotations

from typing import Any

MAIN_FACTS = 10
USE = "use"  # what the job used, which the log and `runner status` show
# What `runner result` alone shows: what was asked for, the job's resources, times within a run.
DETAILS = frozenset(
    (
        *("arguments", USE, "trainer", "device", "threads", "versions", "weights", "finished"),
        *("startup_seconds", "first_step_unix_time", "first_epoch_seconds"),
        *("steady_epoch_seconds", "step_seconds_median", "step_seconds_p95", "data_wait_share"),
        *("peak_memory_bytes", "resumed_at_steps"),
    )
)


def main(result: dict[str, Any]) -> dict[str, Any]:
    """Return the ten facts of a result that tell how well the training went, and where."""
    facts = [(name, item) for name, item in result.items() if name not in DETAILS]
    return dict(facts[:MAIN_FACTS])


def without_use(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what the job used."""
    return {name: item for name, item in result.items() if name != USE}
