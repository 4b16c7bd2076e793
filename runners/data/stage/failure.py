"""Why data could not be staged: said in the log, and left where `runner` looks for failures."""

import json
import os
import socket
import sys
import time

EXIT_NOT_STAGED = 92


class NotStaged(Exception):
    """The message is for the user; the node's name is put before it."""


def host() -> "str":
    """Return this node's name as Slurm has it: without its domain."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def record(message: "str") -> None:
    """Say it, and in a job write a record beside those of failed ranks; by rename, as they do."""
    print(f"runner: data on {host()}: {message}", file=sys.stderr, flush=True)
    code = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.basename(code) != "code":
        return  # by hand, from where runner is installed: there is no run
    folder = os.path.join(os.path.dirname(code), "failures")
    path = os.path.join(folder, f"rank-data-{host()}.json")
    facts = {
        "rank": None,
        "host": host(),
        "exit_code": EXIT_NOT_STAGED,
        "message": message,
        "time": time.time(),
    }
    os.makedirs(folder, exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file)
    os.replace(path + ".part", path)
