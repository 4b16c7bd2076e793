"""Relays the launcher's signals to the trainer, and ends it with its job.

Signals wait until there is a trainer (`hold`), which decides what to do with them. The shim sets no
time limit, because the sender has one (Slurm: GraceTime, KillWait, the time limit). Where another
rank has failed, SIGTERM ends the trainer: it may wait for that rank in an MPI call for ever, can
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
    """Block signals until `let_in` or a Relay takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, RELAYED)


def let_in() -> None:
    """Unblock signals: those that waited arrive now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, RELAYED)


class Relay:
    """Passes signals on to the process `child`, and remembers them in `seen`.

    Where `others_failed` says that another rank has failed, SIGTERM ends the child, and `ended` is
    true. `trainer` returns the process that answers signals, which may be below the child.
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
    """Whether the signals `seen` ended a recipe before its first step, so that nothing is lost.

    Recipes answer signals from the first step on, so a recipe that a signal killed had not come so
    far. Where one rank was killed, the others fail to meet it. A user's program may do otherwise.
    """
    ends = seen & {signal.SIGTERM, signal.SIGUSR1}
    killed = code in {128 + number for number in ends}
    return command[0] == "-m" and bool(ends) and code != 0 and (killed or not in_training)


class JobEndWatch:
    """Ends the process `child` once the run's folder says that the job has ended; then `ended`.

    It has no thread: Python's threads need libgcc to end, which small images lack.
    """

    def __init__(self, child: int, run_dir: str) -> None:
        self.child, self.run_dir = child, run_dir
        self.began, self.ended = time.time(), False
        self.looked = time.monotonic()

    def poll(self) -> None:
        """Look at the folder, if it is time to; the child must not have been waited for."""
        if self.ended or time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return
        self.looked = time.monotonic()
        if self._job_has_ended():
            print("runner: the job has ended without this rank", flush=True)
            self.ended = True
            os.kill(self.child, signal.SIGKILL)

    def _job_has_ended(self) -> bool:
        """Whether the job's script has written its end, or `runner` has seen that a node was lost.

        A cancelled job has not ended: its ranks may be saving.
        """
        for name, mark in ((EXIT, ""), (JOB, LOST)):
            path = os.path.join(self.run_dir, name)
            with contextlib.suppress(OSError):
                # One from before this start is of a script submitted again.
                if os.stat(path).st_mtime > self.began and mark in read(path):
                    return True
        return False
