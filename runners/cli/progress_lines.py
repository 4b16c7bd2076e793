"""How long work looks where nobody watches a terminal: a line now and then, on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from containers.progress import Status, unknown

from ..core.disk_space import shown

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_SIGNS = 30.0  # of life, in a phase that does not count bytes


class Lines:
    """One line for each step, and one every ten seconds of a long one."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.began = self.told = time.monotonic()

    def say(self, text: str) -> None:
        """Print it."""
        click.echo(text, err=True)

    def begin(self, what: str, total: int | None = None) -> None:
        """Print the step."""
        self.total, self.began, self.told = total, time.monotonic(), time.monotonic()
        self.say(f"{what} ({shown(total)})" if total else what)

    def at(self, done: int) -> None:
        """Print bytes and rate, seldom."""
        now = time.monotonic()
        if now - self.told > SECONDS_BETWEEN_LINES:
            self.told = now
            of = f" of {shown(self.total)}" if self.total else ""
            self.say(f"  {shown(done)}{of}, {shown(done / (now - self.began))}/s")

    @contextmanager
    def phase(self, name: str, status: Status = unknown) -> Iterator[None]:
        """Say that something begins, now and then what it does, and how long it took."""
        self.say(f"{name} ...")
        began, ended = time.monotonic(), threading.Event()

        def signs_of_life() -> None:
            while not ended.wait(SECONDS_BETWEEN_SIGNS):
                line = status()
                self.say(f"  {time.monotonic() - began:.0f} s so far{line and ': '}{line}")

        thread = threading.Thread(target=signs_of_life, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.say(f"{name}: {time.monotonic() - began:.0f} s")
