"""How all ranks end together: by an error on any of them, or by a signal that asks for it."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeVar

from recipes.errors import UserError

T = TypeVar("T")
#: The time limit comes near, and preemption.
SIGNALS = (signal.SIGUSR1, signal.SIGTERM)


def on_all_ranks(hvd: Any, action: Callable[[], T]) -> T:
    """Do `action` on every rank and return its value, or stop all ranks if it failed on any.

    A `UserError` on one rank alone (a data folder missing on one node, say) would leave the
    other ranks waiting in their next allreduce. So all of them learn of it here: rank 0 prints
    the message to stderr, and every rank ends with the error's exit code.
    """
    value: T | None = None
    failure = None
    try:
        value = action()
    except UserError as error:
        failure = (str(error), error.exit_code)
    # Horovod: the explicit name matters: the default is the object's type, which differs by rank.
    failures = hvd.allgather_object((socket.gethostname(), failure), name="failures")
    if any(found for _, found in failures):
        text = failure_text(failures) if hvd.rank() == 0 else ""
        end_together(hvd, text, max(found[1] for _, found in failures if found))
    return value  # type: ignore[return-value]  # None only if action itself returns None


def end_together(hvd: Any, text: str, code: int) -> NoReturn:
    """End all ranks with `code`; rank 0 first prints `text` to stderr."""
    if text:
        print(text, file=sys.stderr, flush=True)
    # Horovod: nobody leaves before rank 0 has spoken: launchers kill the rest at the first exit.
    hvd.broadcast_object(None, root_rank=0, name="told")
    hvd.shutdown()
    leave(code)


def leave(code: int) -> NoReturn:
    """End this process now, without Python's way out.

    That takes up to a second, differently on each rank, and in that time a launcher kills those
    that are late: their exit code would be 143 instead of `code`. And threads of C++ that wake up
    in it are ended in a way that aborts the process (134; Python before 3.14, torch's Gloo).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def failure_text(failures: Sequence[tuple[str, tuple[str, int] | None]]) -> str:
    """Say each different failure once, with the ranks it struck unless it struck all."""
    ranks_of: dict[str, list[str]] = {}
    for rank, (host, found) in enumerate(failures):
        if found:
            ranks_of.setdefault(found[0], []).append(f"{rank}@{host}")
    lines = []
    for message, ranks in ranks_of.items():
        where = "" if len(ranks) == len(failures) else f"on rank {', '.join(ranks)}: "
        lines.append(f"error: {where}{message}")
    return "\n".join(lines)


class Stop:
    """Whether this rank has been asked to stop. The step in flight is finished first."""

    def __init__(self) -> None:
        self.signal = ""

    def __bool__(self) -> bool:
        return bool(self.signal)

    def listen(self) -> None:
        """From now on only note the signals, which would end the process otherwise."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name
