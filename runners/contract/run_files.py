"""Files below a run's folder that a job and `runner` both know.

Python 3.6, for what runs on a node's own.
"""

import os

RESULT = "result.json"  # the trainer's own
FAILURES = "failures"  # a folder
USE, WEIGHTS = "use.json", "weights.json"
STOPPED, EXIT, JOB = "stopped.json", "exit.json", "job.json"
PROFILE = "profile"  # a folder
TEMPORARY_KEY = "code/temporary-key"
TOKEN, ADDRESS = "token", "address.json"  # in a folder that only its owner can read


def failure_path(run_dir: "str", name: "object") -> "str":
    """Return the path of a failure's record, `name` is a rank or what failed on a node."""
    return os.path.join(run_dir, FAILURES, f"rank-{name}.json")


def read(path: "str") -> "str":
    """Return a file's text, also a file of the kernel's; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
