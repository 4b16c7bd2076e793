"""Signals to the command: each ends it with its own code, and waits while a job is handed over."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, time
from runners.core import command_signals
command_signals.listen(lambda words: print(words, file=sys.stderr))
try:
    with command_signals.held():
        os.kill(os.getpid(), {number})
        time.sleep(0.1)
        print("written down")
    print("not reached")
except KeyboardInterrupt as told:
    sys.exit(command_signals.code(told))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_waits_and_then_ends_with_its_code(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(number=int(number))],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 128 + number, done.stderr
    assert done.stdout == "written down\n"
    assert "interrupted: exiting after the submission" in done.stderr


def test_nohup_stays_in_force() -> None:
    text = PROGRAM.format(number=int(signal.SIGHUP))
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=20,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
    )
    assert done.returncode == 0, done.stderr
    assert "not reached" in done.stdout


def test_in_a_program_that_uses_the_api_nothing_is_printed() -> None:
    (listen,) = [
        line for line in PROGRAM.splitlines(True) if line.startswith("command_signals.listen")
    ]
    text = PROGRAM.format(number=int(signal.SIGINT)).replace(listen, "")
    argv = [sys.executable, "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "written down\n", "")


def test_two_at_once_leave_the_last_word_of_the_first() -> None:
    text = """
import os, signal, sys, time
from runners.core import command_signals
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the command does before its imports
command_signals.listen(print)
try:
    with command_signals.saying("the last word"):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.6)
            print("tidied up")
            raise
except KeyboardInterrupt as told:
    print(told.words)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("a later one counts")
"""
    argv = [sys.executable, "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout, done.stderr) == ("tidied up\nthe last word\na later one counts\n", "")


@pytest.mark.parametrize(("number", "asks"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_only_ctrl_c_leaves_somebody_to_ask(number: int, asks: bool) -> None:
    text = f"""
import os, signal, time
from runners.core import command_signals
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the command does before its imports
command_signals.listen(print)
try:
    os.kill(os.getpid(), {int(number)})
    time.sleep(1)
except KeyboardInterrupt as told:
    print(isinstance(told, command_signals.Interrupted))
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stdout == f"{not asks}\n", done.stderr
