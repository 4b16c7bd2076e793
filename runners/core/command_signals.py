"""Signals to the command itself: all end it alike, but not between sbatch and its answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C, `kill`, a closed terminal, and what Slurm sends before a time limit (--signal)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

# Seconds within which signals count as one: `timeout` and a terminal's launchers send theirs to the
# command and then to its process group, and a second one would cut off the last word of the first.
SAME_SECONDS = 0.5
_last = -SAME_SECONDS
_tell: Callable[[str], None] | None = None


class Interrupted(KeyboardInterrupt):
    """The command was ended by a signal, and there is nobody to ask. `words` say what it left."""

    def __init__(self, code: int, words: str = "") -> None:
        super().__init__(words)
        self.code, self.words = code, words


def listen(tell: Callable[[str], None]) -> None:
    """From now on all signals interrupt, so that there is a last word.

    Of one that has to wait `tell` says so at once.
    """
    global _tell
    _tell = tell
    for number in SIGNALS:
        # `&` in a script has SIGINT ignored, nohup has SIGHUP
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last
    before, _last = _last, time.monotonic()
    if _last - before <= SAME_SECONDS:
        return
    if number == signal.SIGINT:  # Ctrl-C: there is a user who can be asked
        raise KeyboardInterrupt
    raise Interrupted(128 + number)


def code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code for it, as the shell counts."""
    return interrupt.code if isinstance(interrupt, Interrupted) else 128 + signal.SIGINT


@contextmanager
def saying(words: str) -> Iterator[None]:
    """Raise Interrupted with these words, which are printed last, if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interrupted(code(interrupt), words) from None


@contextmanager
def held() -> Iterator[None]:
    """Hold back signals until the end of the block.

    A job that Slurm has taken, and whose number was not written down, would run unknown to all.
    Only Python's main thread receives signals: in another one there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if _tell:
            _tell("interrupted: exiting after the submission")

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, before[number])
        if came:
            os.kill(os.getpid(), came[0])
