"""The one door to other programs, and the two errors of this package."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence


class ClusterError(Exception):
    """Something failed: the message says what, shows the evidence and names the next command."""

    exit_code = 1


class Unsupported(ClusterError):
    """This machine cannot carry the cluster; the message names what is missing."""

    exit_code = 2


def run(argv: Sequence[str], stdin: str | None = None, timeout: float = 600) -> str:
    """Run *argv* and return its standard output.

    *timeout* is in seconds. Raises ClusterError with the command and the end of its output when
    the command is absent, fails or takes too long.
    """
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{argv[0]} is not installed, needed for: {shown(argv)}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"no answer within {timeout:g} s: {shown(argv)}") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
        raise ClusterError(f"exit {done.returncode} from: {shown(argv)}\n{tail}")
    return done.stdout


def shown(argv: Sequence[str]) -> str:
    """*argv* as one line for a message; scripts and long words are cut."""
    lines = (word.strip().partition("\n") for word in argv)
    words = [first[:100] + ("..." if rest or first[100:] else "") for first, _, rest in lines]
    return shlex.join(words)
