"""The one door to other programs."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from .errors import SystemFault

PR_SET_PDEATHSIG = 1  # prctl(2)
SECONDS_TO_END = 10.0


@dataclass(frozen=True)
class Result:
    """What a program answered: exit code and its two outputs as text."""

    code: int
    out: str
    err: str


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    stdin: str | None = None,
) -> Result:
    """Run `argv`, for `timeout` seconds at most; raise SystemFault if it is absent or hangs.

    What must not be seen in a process list, such as a password, goes through `stdin`.
    """
    try:
        done = subprocess.run(
            argv,
            env=env,
            timeout=timeout,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise SystemFault(f"the command {argv[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise SystemFault(f"{argv[0]} did not answer within {timeout:.0f} s") from None
    return Result(done.returncode, done.stdout, done.stderr)


def together(commands: Sequence[Sequence[str]], timeout: float) -> list[Result]:
    """Run all commands at once, for `timeout` seconds in all; return their results in order.

    For questions whose answers one can do without: a command that is absent has the code 127, one
    that hangs is ended and has 124, and `err` says so.
    """
    began = time.monotonic()
    running = [_start_quietly(argv) for argv in commands]
    return [_result(each, began + timeout, timeout) for each in running]


def _start_quietly(argv: Sequence[str]) -> subprocess.Popen[str] | str:
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    try:
        return subprocess.Popen(
            argv, stdin=none, stdout=pipe, stderr=pipe, text=True, errors="replace"
        )
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"


def _result(process: subprocess.Popen[str] | str, deadline: float, timeout: float) -> Result:
    if isinstance(process, str):
        return Result(127, "", process)
    try:
        # Even after the deadline there is time to read what a quick command said meanwhile.
        out, err = process.communicate(timeout=max(0.2, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()  # not waited for: a child of its own may keep the pipes open
        return Result(124, "", f"no answer within {timeout:.0f} s")
    return Result(process.returncode, out, err)


def ask(argv: Sequence[str]) -> Result:
    """Run `argv` with our own terminal, so that it can ask; only its stderr is in the result."""
    try:
        done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, errors="replace")
    except FileNotFoundError:
        raise SystemFault(f"the command {argv[0]} is not on this machine") from None
    return Result(done.returncode, "", done.stderr)


def start(argv: Sequence[str], log: str) -> int:
    """Start `argv` in a session of its own, output appended to `log`; return its pid."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid


def watch(
    argv: Sequence[str], tick: Callable[[], None], env: Mapping[str, str] | None = None
) -> Result:
    """Run `argv` for as long as it takes, calling `tick` several times a second.

    Its output, both kinds together, is the result's `out`. It ends when we do, be it by an
    exception or by SIGKILL. Raises SystemFault if it is absent.
    """
    import ctypes
    import tempfile  # both cost what a dry run need not pay

    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        except FileNotFoundError:
            raise SystemFault(f"the command {argv[0]} is not on this machine") from None
        code = _until_end(process, tick)
        log.seek(0)
        return Result(code, log.read().decode("utf-8", "replace"), "")


def _until_end(process: subprocess.Popen[bytes], tick: Callable[[], None]) -> int:
    try:
        while True:
            try:
                return process.wait(0.2)
            except subprocess.TimeoutExpired:
                tick()
    except BaseException:
        process.terminate()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
