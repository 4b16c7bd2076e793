"""The one door to other programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import SystemFault


@dataclass(frozen=True)
class Result:
    """What a program answered: exit code and its two outputs as text."""

    code: int
    out: str
    err: str


def run(argv: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 60) -> Result:
    """Run `argv`, for `timeout` seconds at most; raise SystemFault if it is absent or hangs."""
    try:
        done = subprocess.run(
            argv, env=env, timeout=timeout, capture_output=True, text=True, errors="replace"
        )
    except FileNotFoundError:
        raise SystemFault(f"the command {argv[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise SystemFault(f"{argv[0]} did not answer within {timeout:.0f} s") from None
    return Result(done.returncode, done.stdout, done.stderr)


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
