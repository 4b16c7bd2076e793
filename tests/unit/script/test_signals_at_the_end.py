"""A signal that comes as the ranks end, or as staged files go: the generated lines under bash.

bash's `wait` may lose a child that ends as a trapped signal comes. Slurm sends SIGTERM to the
script and to the ranks together, so both come at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runners.script import exit_trap
from runners.script.stage_lines import AT_THE_END

from .test_step_end import warned

TIMES = 150
END = 'exit "$code"'


@pytest.mark.parametrize("code", [7, 137])
def test_no_exit_code_of_the_ranks_is_lost(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(exit_trap, "LOOK", 0.02)
    monkeypatch.setenv("POSIXLY_CORRECT", "1")  # bash remembers less of its children then
    *lines, end = exit_trap.around(warned(300), f"(sleep 0.01; exit {code})")
    assert end == END
    body = "\n".join(["stuck() { false; }", exit_trap.WHILE_IT_WAITS, *_often(lines), "echo over"])
    script = subprocess.Popen(
        ["bash", "-c", body], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert script.stdout is not None
    assert script.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 30
    while script.poll() is None and time.monotonic() < deadline:
        script.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(script.pid, signal.SIGKILL)  # a script that waits for ever has watchers, too
    assert script.stdout.read().split() == [*[str(code)] * TIMES, "over"]


def _often(lines: list[str]) -> list[str]:
    """Return the lines in a loop, which prints each exit code."""
    return ["echo begun", f"for turn in {{1..{TIMES}}}; do", *lines, 'echo "$code"', "done"]


def test_a_signal_at_the_end_does_not_leave_staged_files_behind(tmp_path: Path) -> None:
    hold = "exec {release}> >(cat; sleep 0.5; touch removed)"
    lines = [
        "trap : TERM",
        "finish() { ls; }",
        hold,
        "holder=$!",
        AT_THE_END,
        "echo begun",
        "exit 7",
    ]
    script = subprocess.Popen(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    assert script.stdout.readline() == "begun\n"
    time.sleep(0.2)
    script.send_signal(signal.SIGTERM)
    assert (script.stdout.read(), script.wait(10)) == ("removed\n", 7)
