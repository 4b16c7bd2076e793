"""Programs of several ranks that train in turns, all started beforehand; prints times as JSON.

The cases are {"CASE": {"command": [...], "ranks": N, "env": {...}, "steps": N}}, where FOLDER in a
command stands for the case's own. While a case has its turn the processes of all
others are stopped (SIGSTOP), so that a turn may be short, and what slows the machine for a while
slows all of them. {"CASE": [[seconds of a step by the clock, of CPU, CPUs of the rank], ...]} of
the slowest rank.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE = 120.0  # seconds for all ranks to start, or for a turn


class Program:
    """The ranks of one case."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.folder, self.steps = folder, case["steps"]
        self.ranks = range(case["ranks"])
        self.pids: list[int] = []
        for rank in self.ranks:
            os.mkfifo(folder / f"{rank}.orders")
        command = [word.replace("FOLDER", str(folder)) for word in case["command"]]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **case["env"]}, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip

    def ready(self) -> None:
        """Wait until all ranks are, and stop them."""
        self.pids = [int(answer["pid"]) for answer in self.answers()]
        self.orders = [(self.folder / f"{rank}.orders").open("w", 1) for rank in self.ranks]
        self.signal(signal.SIGSTOP)

    def turn(self) -> list[float]:
        """Let all ranks do their steps; return the slowest one's seconds."""
        self.signal(signal.SIGCONT)
        for pipe in self.orders:
            pipe.write(f"{self.steps}\n")
        found = max(self.answers())
        self.signal(signal.SIGSTOP)
        return list(found)

    def answers(self) -> list[Any]:
        """Wait for all ranks to tell something."""
        deadline = time.monotonic() + PATIENCE
        paths = [self.folder / f"{rank}.done" for rank in self.ranks]
        while not all(path.exists() for path in paths):
            late = time.monotonic() > deadline
            if late or self.process.poll() is not None:
                said = (self.folder / "log").read_text(errors="replace")[-3000:]
                sys.exit(f"no answer within {PATIENCE:.0f} s. {said}" if late else said)
            time.sleep(0.002)
        found = [json.loads(path.read_text()) for path in paths]
        for path in paths:
            path.unlink()
        return found

    def signal(self, number: int) -> None:
        """Send a signal to the ranks themselves, not to who started them."""
        for pid in self.pids:
            os.kill(pid, number)

    def end(self) -> None:
        """End the ranks: no order is left, and their farewells would take longer than training."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # a rank may have ended by itself
                self.signal(signal.SIGKILL)
            self.process.terminate()
            self.process.wait()


def measure(cases: dict[str, Any], seconds: float, root: Path) -> dict[str, list[list[float]]]:
    """Start all cases, one after the other, and give each its turn again and again for so long."""
    programs: dict[str, Program] = {}
    try:
        for number, (name, case) in enumerate(cases.items()):
            folder = root / str(number)
            folder.mkdir()
            programs[name] = Program(case, folder)
            programs[name].ready()
        return take_turns(programs, seconds)
    finally:
        for program in programs.values():
            program.end()


def take_turns(programs: dict[str, Program], seconds: float) -> dict[str, list[list[float]]]:
    """Return the times of all turns; every second round goes backwards."""
    found: dict[str, list[list[float]]] = {name: [] for name in programs}
    end, names = time.monotonic() + seconds, list(programs)
    while time.monotonic() < end or len(found[names[0]]) < 3:
        for name in names:
            found[name].append(programs[name].turn())
        names.reverse()
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="for the turns, not the start")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--cases", type=json.loads, required=True, help="JSON, as above")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        print(json.dumps(measure(options.cases, options.seconds, Path(name))))


if __name__ == "__main__":
    main()
