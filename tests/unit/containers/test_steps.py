"""Steps of a build that run beside each other: their order, their number, failure and stop."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from containers import build_steps, process
from containers.build_steps import BuildProgress, BuildStep, Status
from runners.core import machine
from runners.core.errors import SystemFault


class Told(BuildProgress):
    """Keeps what was said, and which phases began."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def phase(
        self, name: str, status: Status = str, usual: str = ""
    ) -> AbstractContextManager[None]:
        self.lines.append(f"{name} {usual}".strip())
        return nullcontext()


def step(name: str, make: Callable[[], object], needed: bool = True, **more: object) -> BuildStep:
    return BuildStep(name, needed, lambda: (make(), None)[1], **more)  # type: ignore[arg-type]


def test_what_does_not_wait_for_each_other_runs_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)
    made: list[str] = []
    steps = [
        step("a", both.wait, after=()),
        step("b", both.wait, after=()),
        step("c", lambda: made.append("c"), after=("b",)),
        step("d", lambda: made.append("d")),
    ]
    build_steps.run(steps, Told(), workers=2)
    assert made == ["c", "d"]


def test_one_worker_makes_them_in_their_order() -> None:
    made: list[str] = []
    steps = [step(name, lambda name=name: made.append(name), after=()) for name in "abc"]  # type: ignore[misc]
    told = Told()
    build_steps.run([*steps, step("d", lambda: made.append("d"), needed=False)], told)
    assert made == ["a", "b", "c"]
    assert "[4/4] d: nothing to do" in told.lines


@pytest.mark.parametrize(
    ("cores", "gb", "steps"),
    [(2, 24, 2), (16, 24, 12), (1, 24, 1), (1, 4, 1), (2, 4, 2), (8, 4, 2), (2, 1, 1), (2, 0, 1)],
)
def test_cores_and_memory_bound_how_many_run_at_once(cores: int, gb: int, steps: int) -> None:
    assert machine.fitting(cores, gb * 10**9, build_steps.STEP_MEMORY) == steps


def test_the_memory_that_is_available_is_the_kernels(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:  4000 kB\nMemFree:   10 kB\nMemAvailable:    3000 kB\n")
    assert machine.available_memory(path) == 3000 * 1024


def test_each_step_says_its_usual_time_and_what_remains() -> None:
    told = Told()
    steps = [
        step("a", int, after=(), usual=30),
        step("b", int, after=("a",), usual=90),
        step("c", int, after=("a",), usual=60),
        step("d", int),
    ]
    build_steps.run(steps, told)
    assert told.lines == [
        "[1/4] a usually 30 s; about 3 min left",
        "[2/4] b usually 90 s; about 2 min left",
        "[3/4] c usually 60 s; about 2 min left",
        "[4/4] d",
    ]


def test_a_failure_ends_the_commands_of_the_others_and_begins_no_further_step(
    tmp_path: Path,
) -> None:
    made: list[str] = []
    log = tmp_path / "log"
    fault = SystemFault("no room")

    def fail() -> None:
        while not log.exists():
            time.sleep(0.01)
        raise fault

    steps = [
        step("long", lambda: process.run(["sleep", "60"], log, {"PATH": "/bin"}), after=()),
        step("bad", fail, after=()),
        step("next", lambda: made.append("next")),
    ]
    began = time.monotonic()
    with pytest.raises(SystemFault) as caught:
        build_steps.run(steps, Told(), workers=2)
    assert caught.value is fault
    assert made == []
    assert time.monotonic() - began < 20


def test_a_stop_reaches_a_command_behind_one_that_ignores_it(tmp_path: Path) -> None:
    """`unshare` ignores SIGINT; what it started cleans up."""
    script = "trap '' INT; (trap 'touch cleaned; exit' INT; touch up; sleep 60 & wait) & wait"

    def run() -> None:
        process.run(["bash", "-c", script], tmp_path / "log", {"PATH": "/bin"}, tmp_path)

    thread = threading.Thread(target=run)
    thread.start()
    while not (tmp_path / "up").exists():
        time.sleep(0.01)
    deadline = time.monotonic() + 10
    while thread.is_alive() and time.monotonic() < deadline:
        process.stop_all()  # it may not know the command yet, so a build asks again, too
        thread.join(1)
    assert not thread.is_alive()
    assert (tmp_path / "cleaned").exists()


def test_phases_that_overlap_share_one_display() -> None:
    """On a terminal, which rich lets one display at a time draw on."""
    program = (
        "from runners.cli.progress import Spinner\n"
        "shown = Spinner()\n"
        "with shown.phase('a'):\n"
        "    with shown.phase('b', usual='usually 1 s'): shown.say('between')\n"
    )
    command = ["script", "-qec", shlex.join([sys.executable, "-c", program]), "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, env={"TERM": "xterm"})
    assert done.returncode == 0, done.stdout
    assert [word in done.stdout for word in ("between", "a: 0 s", "b: 0 s")] == [True] * 3
