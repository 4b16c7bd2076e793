"""What ends a trainer from outside: signals of the launcher, which go on to it, and its job's end.

They wait until there is a trainer (`hold`). A trainer decides what it does with them; this parent
sets no time limit, since who sent the signal has one (Slurm: GraceTime, KillWait, the time limit).
Except where another rank has failed: a trainer that waits for it, in an MPI call without end, can
neither save nor stop, and Slurm would wait KillWait seconds for it (30 by default) on all nodes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType
from typing import Callable

from ...contract.run_files import EXIT, JOB, read

RELAYED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
SECONDS_BETWEEN_LOOKS = 30.0
LOST = '"state": "NODE_FAIL"'


def hold() -> None:
    """Let signals wait until `let_in` or a Relay takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, RELAYED)


def let_in() -> None:
    """Take signals as usual again: those that waited come now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, RELAYED)


class Relay:
    """Passes signals on to the process `child`, and remembers which came.

    `others_failed` tells whether a rank has failed; then SIGTERM is an end, `ended`. `trainer`
    returns the process that answers signals, which may be below the child.
    """

    def __init__(
        self, child: int, others_failed: Callable[[], bool], trainer: Callable[[], int]
    ) -> None:
        self.child, self.others_failed, self.trainer = child, others_failed, trainer
        self.ended = False
        self.seen: set[int] = set()
        for number in RELAYED:
            signal.signal(number, self._pass_on)
        let_in()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.seen.add(number)
        self.ended = self.ended or (number == signal.SIGTERM and self.others_failed())
        if self.ended:
            os.kill(self.child, signal.SIGKILL)
            return
        with contextlib.suppress(ProcessLookupError):  # one below the child has just ended
            os.kill(self.trainer(), number)

    def stop(self) -> None:
        """Ignore signals, before the child is waited for and its number may be another's."""
        for number in RELAYED:
            signal.signal(number, signal.SIG_IGN)


def ended_before_training(command: list[str], in_training: bool, code: int, seen: set[int]) -> bool:
    """Whether a recipe was ended, by the signals `seen`, before its first step: nothing is lost.

    From then on recipes answer signals, so one that a signal killed had not come so far; and where
    one rank was killed the others fail to meet it. Of a user's own program nobody knows.
    """
    ends = seen & {signal.SIGTERM, signal.SIGUSR1}
    killed = code in {128 + number for number in ends}
    return command[0] == "-m" and bool(ends) and code != 0 and (killed or not in_training)


class JobEndWatch:
    """Ends the process `child` once the run's folder says that the job has ended; then `ended`.

    Without a thread: those of Python need libgcc to end, which small images lack.
    """

    def __init__(self, child: int, run_dir: str) -> None:
        self.child, self.run_dir = child, run_dir
        self.began, self.ended = time.time(), False
        self.looked = time.monotonic()

    def poll(self) -> None:
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
        for name, mark in ((EXIT, ""), (JOB, LOST)):
            path = os.path.join(self.run_dir, name)
            with contextlib.suppress(OSError):
                # One from before this start is of a script submitted again.
                if os.stat(path).st_mtime > self.began and mark in read(path):
                    return True
        return False
