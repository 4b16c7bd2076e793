"""A user at a terminal: what is typed, and what has appeared on the screen."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .conftest import CHECKOUT, FEW_THREADS, Login

CTRL_C = "\x03"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """A command on the login node, with a terminal of its own."""

    def __init__(self, master: int, child: int) -> None:
        self.master, self.child = master, child
        self.raw = self.seen = ""

    @property
    def everything(self) -> str:
        """All that has appeared so far, without what moves and colours it."""
        return ESCAPES.sub("", self.raw)

    def type(self, keys: str) -> None:
        """Press keys, after a moment: a question for one key drops what was typed before it."""
        time.sleep(0.5)
        os.write(self.master, keys.encode())

    def see(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Wait until a pattern has appeared since the last one that was waited for."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.seen}"
            assert self._read(), f"it ended without {pattern!r}:\n{self.seen}"
        self.seen = self.seen[found.end() :]
        return found

    def end(self) -> int:
        """Read what still comes; return the exit code."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def _read(self) -> bool:
        """Take what has come, for a second at most; False once nothing more can come."""
        if not select.select([self.master], [], [], 1)[0]:
            return True
        try:
            raw = os.read(self.master, 65536)
        except OSError:  # the last process of the terminal has ended
            return False
        text = raw.decode("utf-8", "replace")
        self.raw += text
        self.seen += ESCAPES.sub("", text)
        return bool(raw)


@contextmanager
def terminal(login: Login, *argv: str, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run a command in the folder, on a terminal of 160 columns that ends with the test."""
    settings = {**FEW_THREADS, "COLUMNS": "160", "LINES": "40", **(env or {})}
    words = ["env", "-C", login.folder, *(f"{k}={v}" for k, v in settings.items()), *argv]
    child, master = pty.fork()
    if child == 0:
        os.chdir(CHECKOUT)
        os.environ["TERM"] = "xterm"
        # script(1) gives a terminal of the node: Ctrl-C on this one would end nsenter.
        inside = ["script", "-qec", shlex.join(words), "/dev/null"]
        cluster = [sys.executable, "-m", "tests.cluster", "exec", "--", *inside]
        os.execvp(cluster[0], cluster)
    try:
        yield Terminal(master, child)
    finally:
        os.close(master)  # what still runs gets SIGHUP
