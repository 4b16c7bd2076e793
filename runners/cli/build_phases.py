"""Shows a long piece of work: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from containers.chain import Progress

WIDTH = 60  # of the log's last line


class Lines:
    """Progress as lines on standard error, for logs and pipes."""

    def say(self, text: str) -> None:
        """One line."""
        click.echo(text, err=True)

    @contextmanager
    def phase(self, name: str, log: Path | None = None) -> Iterator[None]:
        """Say that something begins, and how long it took."""
        self.say(f"{name} ...")
        began = time.monotonic()
        yield
        self.say(f"{name}: {time.monotonic() - began:.0f} s")


def last_line(log: Path | None) -> str:
    """The last line that has something to read, cut to fit; empty when there is no log yet."""
    if log is None or not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:WIDTH] if lines else ""


def display() -> Progress:
    """What fits standard error."""
    if not sys.stderr.isatty():
        return Lines()
    from .spinner import Live

    return Live()
