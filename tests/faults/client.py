"""A `runner` on the login node, as a user starts it: it can be told to end; its words are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.design import CONTROLLER

from . import machine
from .place import Place

ENVIRONMENT = {"RUNNER_CPUS_PER_TASK": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class Client:
    """A command in a folder of the user's, in the background."""

    def __init__(self, place: Place, folder: str, words: list[str], env: dict[str, str]) -> None:
        settings = [f"{name}={value}" for name, value in {**ENVIRONMENT, **env}.items()]
        self.kept = TemporaryDirectory()
        self.began = time.monotonic()
        command = ["env", "-C", folder, *settings, *words]
        with open(self._path("out"), "wb") as out, open(self._path("err"), "wb") as err:
            self.process = subprocess.Popen(
                place.argv(CONTROLLER, command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                # What a shell starts in the background ignores Ctrl-C, and so would this.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
            )

    def _path(self, name: str) -> Path:
        return Path(self.kept.name) / name

    @property
    def out(self) -> str:
        """Its output so far."""
        return self._path("out").read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has said so far."""
        return self._path("err").read_text(errors="replace")

    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def wait(self, seconds: float) -> int:
        """Return its exit code, 128 + N for a signal's; raises TimeoutExpired."""
        code = self.process.wait(seconds)
        return code if code >= 0 else 128 - code

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends SIGINT to each process of the foreground."""
        machine.send(signal.SIGINT, self._processes())

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to `runner` alone, as `kill` does."""
        machine.send(number, self._processes()[:1])

    def _processes(self) -> list[int]:
        """Those of its session, the oldest first, but for nsenter, which no terminal has."""
        own = [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_own(pid)
        ]
        return sorted(own)

    def _is_own(self, pid: int) -> bool:
        if pid == self.process.pid:
            return False
        try:
            return os.getsid(pid) == self.process.pid
        except ProcessLookupError:
            return False

    def end(self) -> None:
        """End it if it still runs."""
        machine.kill(*self._processes())
        self.process.kill()
        self.process.wait()
        self.kept.cleanup()
