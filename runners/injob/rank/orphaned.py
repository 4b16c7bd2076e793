"""A rank that runs on though its job has ended: its node was cut off, and Slurm tells it late.

Seen with Slurm 24.11: two minutes after the network was there again the ranks still waited for the
others, on memory and GPUs that Slurm had given away.
"""

from __future__ import annotations

import os
import signal
import time

SECONDS_BETWEEN_LOOKS = 30.0
LOST = '"state": "NODE_FAIL"'


class Watch:
    """Ends the process `child` once the run's folder says that the job has ended; then `ended`.

    Without a thread: those of Python need libgcc to end, which small images lack.
    """

    def __init__(self, child: int, run_dir: str) -> None:
        self.child, self.run_dir = child, run_dir
        self.began, self.ended = time.time(), False
        self.looked = time.monotonic()

    def look(self) -> None:
        """Look, if it is time to; the child must not have been waited for."""
        if self.ended or time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return
        self.looked = time.monotonic()
        if self._job_has_ended():
            print("runner: the job has ended without this rank", flush=True)
            self.ended = True
            os.kill(self.child, signal.SIGKILL)

    def _job_has_ended(self) -> bool:
        """Whether its script says so, or who looked at the job after its script was killed.

        That a job is cancelled is no end: its ranks may be saving.
        """
        return self._read("exit.json") is not None or LOST in (self._read("job.json") or "")

    def _read(self, name: str) -> str | None:
        """Return a record; None for one from before this start, of a script submitted again."""
        path = os.path.join(self.run_dir, name)
        try:
            if os.stat(path).st_mtime <= self.began:
                return None
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None
