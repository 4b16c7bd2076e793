"""An allocation that one waits for, and in which a script runs at one's terminal."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from typing import Callable

from ...core import shell
from ...core.errors import Refused
from ...core.job_record import Job, JobState
from ...schedulers import slurm_calls
from .. import launch
from ..launch import Draft
from . import session

SECONDS_BETWEEN_QUESTIONS = 10.0
INTERRUPTED = 130
SCRIPT = 2  # words of the command line that are salloc's command


class Allocation:
    """One allocation: waits for it, tells of it, gives the terminal to its script."""

    def __init__(self, draft: Draft, tell: Callable[[Job, bool], None]) -> None:
        """`tell` is called now and then while the job waits, and when it has its nodes (True)."""
        self.draft, self.tell = draft, tell
        self.job: Job | None = None
        self.granted, self.asked = False, 0.0
        self.said: list[str] = []

    def run(self) -> int:
        """Write the run's folder, wait, run the script; return its exit code.

        When the wait ended without nodes, by Ctrl-C or `runner cancel`, it is INTERRUPTED. Raises
        Refused with the scheduler's words when there is no job, and removes the folder.
        """
        launch.check(self.draft.plan)
        with launch.claimed(self.draft.paths.root):
            launch.write(self.draft)
        argv = session.allocation(self.draft.plan, self.draft.paths)
        try:
            env = slurm_calls.scrubbed(os.environ)
            code = shell.attend(argv, SCRIPT, env, self._heard, self._tick)
        finally:
            if self.job is None:
                shutil.rmtree(self.draft.paths.root)
        if self.job is None:
            said = "\n".join(self.said)
            raise Refused("Slurm refused the allocation", said, slurm_calls.look(said))
        if self.granted:
            return code
        replace(self.job, state=JobState.CANCELLED.name).save(self.draft.paths)
        return INTERRUPTED

    def _heard(self, line: str) -> None:
        """Take note of what the scheduler says: the number, and that the job has its nodes."""
        found = slurm_calls.heard(line)
        self.said.append(line)
        if found and self.job is None:
            self.job = launch.record(self.draft, found[0])
        if self.job and found and found[1]:
            self.granted = True
            self.tell(self.job, True)

    def _tick(self) -> None:
        waits = self.job is not None and not self.granted
        if self.job and waits and time.monotonic() - self.asked > SECONDS_BETWEEN_QUESTIONS:
            self.asked = time.monotonic()
            self.tell(self.job, False)
