"""Many runs in one job: how its script starts the run of a task. Pure.

A task's script is that of its run, which also runs by hand; the array's own only finds it, by a
link that has the task's number.
"""

from __future__ import annotations

import shlex

from .. import __version__
from ..core.job_record import ArrayPaths

HEADER = f"# Written by runner {__version__}. Each task is a run; its folder is a link in tasks/."


def lines(shell: str, array: ArrayPaths, variable: str, redirect: bool = False) -> list[str]:
    """Return the lines; `variable` has the task's number, and with `redirect` they open its log."""
    run = f'{shlex.quote(str(array.tasks))}/"${variable}"'
    log = f" >> {run}/logs/job.log 2>&1" if redirect else ""
    return ["", HEADER, f"exec {shell} {run}/job.sbatch{log}"]
