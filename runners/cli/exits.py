"""Exit codes, and the only place where errors become them.

0 success, 2 wrong usage, 130 interrupted; a job's own code is passed through when waiting.
Ours start at 80, which the shell, `timeout` and signals leave free.
"""

from __future__ import annotations

from ..errors import Refused, RunnerError, UsageError
from ..jobs import JobState
from ..rank.gate import EXIT_WORLD_SIZE
from ..watch import Status

FAULT = 1
USAGE = 2
REFUSED = 80
WORLD_SIZE = EXIT_WORLD_SIZE
BY_STATE = {
    JobState.TIMEOUT: 83,
    JobState.PREEMPTED: 84,
    JobState.NODE_FAIL: 85,
    JobState.CANCELLED: 86,
    JobState.OUT_OF_MEMORY: 87,
    JobState.UNKNOWN: 88,
}


def of_error(error: RunnerError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, UsageError):
        return USAGE
    return REFUSED if isinstance(error, Refused) else FAULT


def of_job(status: Status, world_size_mismatch: bool) -> int:
    """Return the exit code for a job that has ended."""
    if world_size_mismatch:
        return WORLD_SIZE
    if status.state in BY_STATE:
        return BY_STATE[status.state]
    if status.state == JobState.COMPLETED:
        return 0
    return status.exit_code or FAULT
