"""Starts programs; nothing else in runners/ does, but for what runs in jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable

from .command_signals import Interrupted
from .errors import MissingProgram, SystemFault

PR_SET_PDEATHSIG = 1  # prctl(2)
SECONDS_TO_END = 10.0


class NoAnswer(SystemFault):
    """A program was ended because it took too long; what it did before is not known.

    What it had said is the evidence.
    """

    id = "no-answer"


@dataclass(frozen=True)
class Result:
    """What a program answered: exit code and its two outputs as text."""

    code: int
    out: str
    err: str


@contextmanager
def _there(argv: Sequence[str]) -> Iterator[None]:
    """Raise MissingProgram for a program that is absent."""
    try:
        yield
    except FileNotFoundError:
        raise MissingProgram(f"the command {argv[0]} is not on this machine") from None


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    apart: bool = False,
) -> Result:
    """Run `argv`, for `timeout` seconds at most; raise SystemFault if it is absent or hangs.

    What runs `apart` the terminal's Ctrl-C does not reach.
    """
    try:
        with _there(argv):
            done = subprocess.run(
                argv,
                env=env,
                timeout=timeout,
                capture_output=True,
                text=True,
                errors="replace",
                start_new_session=apart,
            )
    except subprocess.TimeoutExpired as late:
        stderr = (late.stderr or b"").decode(errors="replace")  # bytes, whatever was asked for
        raise NoAnswer(f"{argv[0]} did not answer within {timeout:.0f} s", stderr.strip()) from None
    return Result(done.returncode, done.stdout, done.stderr)


def together(commands: Sequence[Sequence[str]], timeout: float) -> list[Result]:
    """Run all commands at once, for `timeout` seconds in all; return their results in order.

    For questions whose answers one can do without: a command that is absent has the code 127, one
    that hangs is ended and has 124, and `err` says so.
    """
    began = time.monotonic()
    running = [_start_quietly(argv) for argv in commands]
    return [_result(process, began + timeout, timeout) for process in running]


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
    with _there(argv):
        done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, errors="replace")
    return Result(done.returncode, "", done.stderr)


def hand_over(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run `argv` with our own terminal until it ends; return its exit code, as a shell would.

    Raises SystemFault if it is absent.
    """
    with _there(argv):
        process = subprocess.Popen(argv, env=env)
    return _outlived(process, lambda: False)


def attend(
    argv: Sequence[str],
    inner: int,
    env: Mapping[str, str],
    read_line: Callable[[str], None],
    tick: Callable[[], None],
) -> int:
    """Run `argv`, of which the last `inner` words are what it starts, with our own terminal.

    What `argv` itself says on stderr goes line by line to `heard`; what it starts has our stderr.
    `tick` is called about once a second. Returns the exit code; raises SystemFault if it is absent.
    """
    import select

    ours = os.dup(2)
    words = ["bash", "-c", f'exec 2>&{ours} {ours}>&-; exec "$0" "$@"', *argv[-inner:]]
    try:
        with _there(argv):
            process = subprocess.Popen(
                [*argv[:-inner], *words], env=env, stderr=subprocess.PIPE, pass_fds=(ours,)
            )
    finally:
        os.close(ours)
    assert process.stderr is not None  # it was asked for
    pipe, rest = process.stderr.fileno(), b""

    def some() -> bool:
        """Pass on what is said within a second; False once nothing more will come."""
        nonlocal rest
        if not select.select([pipe], [], [], 1.0)[0]:
            tick()
            return True
        chunk = os.read(pipe, 1 << 16)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            read_line(line.decode("utf-8", "replace"))
        return bool(chunk)

    return _outlived(process, some)


def _outlived(process: subprocess.Popen[bytes], step: Callable[[], bool]) -> int:
    """Call `step` until it returns False, and wait for the end; return the exit code.

    A Ctrl-C reaches the process too, and is its own affair; other signals are passed on to it, and
    end this command after it.
    """
    interrupt: Interrupted | None = None
    while True:
        try:
            if not step():
                code = process.wait()
                break
        except Interrupted as interruption:
            interrupt = interruption
            process.send_signal(interruption.code - 128)
        except KeyboardInterrupt:
            continue
    if interrupt:
        raise interrupt
    return 128 - code if code < 0 else code


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
        with _there(argv):
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
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
