"""Why something was not staged: said in the log, and left where `runner` looks for failures."""

import os
import socket
import sys
import time

from .. import failure_kinds as kinds
from .. import json_files

EXIT_NOT_STAGED = 92
EXIT_NOT_VERIFIED = 81
DATA, IMAGE = "data", "image"
# The image's names begin so, which no dataset's does.
OF_THE_IMAGE = ".image"


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
    json_files.write(path, facts)
