"""Prints as JSON what Horovod was built with, which is what `horovodrun --check-build` tells.

That command imports a framework six times, once for each question, four seconds each; here it is
imported once. Its text goes to `python -c`: standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import json
import subprocess
import sys

import horovod  # noqa: F401  # where it is not, nothing is told

FRAMEWORKS = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}
OPERATIONS = ("nccl", "ddl", "ccl", "mpi", "gloo")
ASK = f"""
import importlib, sys
module = importlib.import_module("horovod." + sys.argv[1])
built = [name for name in {OPERATIONS} if getattr(module, name + "_built", bool)()]
print("\\nbuilt with", *built)
"""


def built_with(module: str) -> list[str] | None:
    """Return the operations of one framework's Horovod; None where that cannot be imported."""
    # Two frameworks in one process may have libraries that do not go together.
    argv = [sys.executable, "-c", ASK, module]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        return None
    return done.stdout.rpartition("\nbuilt with")[2].split()


if __name__ == "__main__":
    answers = {name: built_with(module) for name, module in FRAMEWORKS.items()}
    frameworks = [name for name, operations in answers.items() if operations is not None]
    operations = next(filter(None, answers.values()), [])
    told: dict[str, list[str]] = {"frameworks": frameworks, "operations": operations}
    told["controllers"] = [name for name in operations if name in ("mpi", "gloo")]
    print(json.dumps({f"horovod.{kind}": ",".join(told[kind]) or "none" for kind in told}))
