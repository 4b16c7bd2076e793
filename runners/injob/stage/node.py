"""The node on which staging runs: its name, its programs, and where it says what failed."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Optional

from .. import failure_kinds as kinds
from .. import run_files

EXIT_NOT_STAGED = 92
EXIT_NOT_VERIFIED = 81
DATA, IMAGE = "data", "image"
# The image's names begin so, which no dataset's does.
OF_THE_IMAGE = ".image"
# CVE-2021-40153 and CVE-2021-41072: up to 4.5 an image can make it write anywhere, through a link.
# A distribution's mended 4.5 and older cannot be told from others by their version.
SAFE = (4, 5, 1)
VERSION = re.compile(r"version (\d+)\.(\d+)(?:\.(\d+))?")


class NotStaged(Exception):
    """The message is for the user; the node's name is put before it."""

    code = EXIT_NOT_STAGED


class NotTheSame(NotStaged):
    """The image is not the file that was launched."""

    code = EXIT_NOT_VERIFIED


def kind(entry: "str") -> "str":
    """Return what an entry of the job's folder is, in the words of the option --stage-...."""
    return IMAGE if os.path.basename(entry).startswith(OF_THE_IMAGE) else DATA


def host() -> "str":
    """Return this node's name as Slurm has it: without its domain."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def say(what: "str", text: "str") -> None:
    print(f"runner: {what} on {host()}: {text}", file=sys.stderr, flush=True)


def record(what: "str", message: "str", code: "int") -> None:
    """Say it, and in a job write a record beside those of failed ranks; by rename, as they do."""
    say(what, message)
    above = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    if os.path.basename(above) != "code":
        return  # by hand, from where runner is installed: there is no run
    path = os.path.join(os.path.dirname(above), "failures", f"rank-{what}-{host()}.json")
    which = kinds.IMAGE_CHANGED if code == EXIT_NOT_VERIFIED else kinds.NOT_STAGED
    facts = {"version": kinds.VERSION, "kind": which, "rank": None, "size": None, "host": host()}
    facts.update(exit_code=code, message=message, time=time.time(), what=what)
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    run_files.write_json(path, facts)


def find(name: "str", folders: "Sequence[str]", advice: "str" = "") -> "str":
    """Return where a program is: on the PATH, or in these folders. Raises NotStaged."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    program = shutil.which(name, path=path)
    if program is None:
        raise NotStaged(f"there is no {name} here{advice}")
    return program


def run(argv: "list[str]", seconds: "Optional[float]" = None) -> "tuple[int, str]":
    """Run it; return its exit code and what it said."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 1, f"{argv[0]} took more than {seconds:.0f} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_line(text: "str", otherwise: "str") -> "str":
    """Return the last words of a program; `otherwise` when it said nothing."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [otherwise])[-1]


def unsafe_unsquashfs(said: "str") -> "str":
    """Return why it is not to be run on such an image, "" for none; `said` is of `-version`."""
    match = VERSION.search(said)
    version = tuple(int(part or 0) for part in match.groups()) if match else ()
    if version >= SAFE:
        return ""
    shown = match.group().split()[1] if match else "of unknown version"
    return (
        f"unsquashfs {shown} can be made to write outside of its folder (CVE-2021-41072); "
        "4.5.1 and newer cannot"
    )
