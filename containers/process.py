"""The commands of a build, each with its output in a log, and the scratch folder they work in."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, AnyStr

from runners.core import locks
from runners.core.errors import SystemFault
from runners.core.progress import Progress

from . import log_causes

SECONDS_TO_STOP = 30
PR_SET_PDEATHSIG = 1  # prctl(2): the signal for a process whose parent ends
_running: set[subprocess.Popen[Any]] = set()  # the commands of steps that run beside each other
VARIABLE = re.compile(r"\w+=")


def run(
    command: Sequence[str], log: Path, environ: Mapping[str, str], folder: Path | None = None
) -> None:
    """Run `command` in `folder`, appending to `log`, and stop it when we are stopped.

    Raises SystemFault with the reason if it fails.
    """
    import ctypes  # here: a launch runs nothing, and a child between fork and exec imports nothing

    libc, ours = ctypes.CDLL(None), os.getpid()
    heeds_sigint = signal.getsignal(signal.SIGINT) == signal.SIG_IGN

    def become_command() -> None:
        if heeds_sigint:  # a script's program in the background ignores SIGINT, and so would this
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Who is killed stops nothing: the command would go on, in the folder of the next build.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != ours:
            os._exit(128 + signal.SIGKILL)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        # A session of its own: Ctrl-C reaches it once, from us, not twice.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=become_command,
        )
        with stoppable(process):
            code = process.wait()
    if code:
        raise SystemFault(_report(command, code, log), id="command-failed")


def _report(command: Sequence[str], code: int, log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    what = f"{_name(command)} failed (exit code {code})"
    cause = log_causes.explain(text)
    if cause:
        what += f":\n{cause}" if cause.startswith("  |") else f": {cause}"
    return f"{what}\n\nThe end of its log:\n{log_causes.last_lines(text)}\nThe whole log: {log}"


def _name(command: Sequence[str]) -> str:
    """Return a command's first words, without the variables that `env` sets."""
    words = list(command)
    if words[0] == "env":
        words = [word for word in words[1:] if not VARIABLE.match(word)]
    return " ".join(words[: 3 if words[1:2] == ["-m"] else 2])


@contextlib.contextmanager
def stoppable(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Stop a command, the first of its session, when we or all are stopped."""
    _running.add(process)
    try:
        yield process
    except BaseException:
        _stop(process)
        raise
    finally:
        _running.discard(process)


def stop_all() -> None:
    """End the commands that run now; who waits for them gets a SystemFault."""
    running = list(_running)
    for process in running:
        _interrupt(process)
    for process in running:
        _end(process)


def _stop(process: subprocess.Popen[Any]) -> None:
    """Let the command clean up after itself, then end what is left of it."""
    _interrupt(process)
    _end(process)


def _interrupt(process: subprocess.Popen[Any]) -> None:
    """As a terminal's Ctrl-C: to all of its session, since `unshare` itself ignores it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def _end(process: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_TO_STOP)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def fresh_log(path: Path) -> Path:
    """The path, of a file that is there and empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def remove(folder: Path) -> None:
    """Remove a tree, files of the build's subordinate users included."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and shutil.which("unshare"):
        mapped = ["unshare", "--user", "--map-root-user", "--map-auto"]
        subprocess.run([*mapped, "rm", "-rf", "--", str(folder)], capture_output=True)


def empty(folder: Path) -> None:
    """Remove what an interrupted build left; programs lie there that the build will run."""
    remove(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o755, exist_ok=True)  # whatever the umask, only we write there


@contextlib.contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """An empty folder, which is left empty."""
    empty(folder)
    try:
        yield folder
    finally:
        empty(folder)


def only_build(folder: Path, shown: Progress) -> AbstractContextManager[None]:
    """Wait until no other build uses the same scratch."""
    return locks.exclusive(folder / "lock", shown, f"builds in {folder}")
