"""Exit codes of jobs that ended; those of errors are theirs (core/errors.py).

0 success, 2 wrong usage, 128 + N ended by signal N (130: Ctrl-C); a job's own code is passed
through when waiting. Ours start at 80, which the shell, `timeout` and signals leave free. Those of
jobs are set in runners/injob and in the script: 82, Horovod's world is not the launcher's
(rank/gate.py); 89, a node's NVIDIA driver or CPU does not fit the image (rank/start.py); 90, the
host's MPI does not work in the image (rank/mpi_check.py); 91, a trainer stopped early on a signal,
with a resumable checkpoint; 92, data or image could not be copied to a node's own disk (stage/);
93, a node could not load a module (script/); 94, a session has no server to show (serve/); 95, the
ranks train different models (rank/referee.py).
"""

from __future__ import annotations

from ..core.errors import RunnerError
from ..core.job_record import Job, JobPaths, JobState, Status
from ..explain import read_facts
from ..injob.rank import EXIT_STOPPED

BY_STATE = {
    JobState.TIMEOUT: 83,
    JobState.PREEMPTED: 84,
    JobState.NODE_FAIL: 85,
    JobState.CANCELLED: 86,
    JobState.OUT_OF_MEMORY: 87,
    JobState.UNKNOWN: 88,
    JobState.STOPPED: EXIT_STOPPED,
}


def of_run(paths: JobPaths, job: Job, status: Status) -> int:
    """Return the exit code for a job that has ended: of a failed one its first rank's."""
    failed = status.state == JobState.FAILED
    return of_status(status, read_facts.exit_code(paths, job) if failed else None)


def of_status(status: Status, first: int | None) -> int:
    """Return the same where that of the first rank to fail is known, or None.

    That rank's own code comes before the job's: srun reports how it ended the others.
    """
    if status.state in BY_STATE:
        return BY_STATE[status.state]
    if status.state == JobState.COMPLETED:
        return 0
    return first or status.exit_code or RunnerError.exit_code
