"""Passes on the trainer's output: each line gets the name of its rank."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from typing import Callable

from . import network, signals
from .reports import Inbox


class OutputLabeller:
    """Copies whole lines to stdout as `rank@host | line` and keeps the last ones.

    If there are two outputs, the lines of the second go to stderr too.
    """

    def __init__(self, name: str, outputs: Sequence[int]) -> None:
        self.prefix = f"{name} | ".encode()
        self.rest: dict[int, list[bytes]] = {output: [] for output in outputs}
        self.streams = {output: (1, 2)[: place + 1] for place, output in enumerate(outputs)}
        self.tail: list[str] = []

    def pump(
        self, woken: int, inbox: Inbox, port: network.PortWatch, polls: Sequence[Callable[[], None]]
    ) -> list[str]:
        """Copy until the child has ended and the pipes are empty; return the last lines.

        `polls` are called now and then.
        """
        still_open, over = list(self.rest), False
        while still_open:
            often = port.needed
            seconds = 0 if over else (network if often else signals).SECONDS_BETWEEN_LOOKS
            ready, _, _ = select.select([*still_open, woken, inbox.sock.fileno()], [], [], seconds)
            # A relayed signal and mail of other ranks wake it up, too.
            ended = woken in ready and signal.SIGCHLD in os.read(woken, 4096)
            inbox.read()
            for poll in polls:
                poll()
            chunks = {output: os.read(output, 65536) for output in still_open if output in ready}
            for output, chunk in chunks.items():
                self.write(output, chunk)
            still_open = [output for output in still_open if chunks.get(output) != b""]
            if over and not any(chunks.values()):
                break
            over = over or ended  # what the child wrote may have come after `ready`
        for output, rest in self.rest.items():
            if any(rest):
                self.write(output, b"\n")
        return self.tail

    def write(self, output: int, chunk: bytes) -> None:
        """Write the complete lines so far in one call, which keeps them whole."""
        self.rest[output].append(chunk)
        if b"\n" in chunk:  # a progress bar may write megabytes into one line
            *lines, rest = b"".join(self.rest[output]).split(b"\n")
            self.rest[output] = [rest]
            for stream in self.streams[output]:
                _write_all(stream, b"".join(self.prefix + line + b"\n" for line in lines))
            self.tail = (self.tail + [line.decode("utf-8", "replace") for line in lines])[-30:]


def _write_all(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]
