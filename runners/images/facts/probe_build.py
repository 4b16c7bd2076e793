"""Prints as JSON what Horovod was built with, which is what `horovodrun --check-build` tells.

That command imports a framework six times, once for each question, four seconds each; here it is
imported once. Its text goes to `python -c`: standard library only, Python 3.6 or newer, as the
oldest images with a Horovod have. So what it writes is decoded here, and no function has types.
"""

import json
import subprocess
import sys

import horovod  # noqa: F401  # where it is not, nothing is told

FRAMEWORKS = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}
ASK = """
import importlib, sys
module = importlib.import_module("horovod." + sys.argv[1])
names = ("nccl", "ddl", "ccl", "mpi", "gloo")
print("\\nbuilt with", *[name for name in names if getattr(module, name + "_built", bool)()])
"""

frameworks, operations = [], []  # type: list[str], list[str]
for name, module in FRAMEWORKS.items():
    # Two frameworks in one process may have libraries that do not go together.
    argv = [sys.executable, "-c", ASK, module]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if done.returncode == 0:
        frameworks.append(name)
        operations = (
            operations or done.stdout.decode(errors="replace").rpartition("\nbuilt with")[2].split()
        )
facts = {"frameworks": frameworks, "operations": operations}
facts["controllers"] = [name for name in operations if name in ("mpi", "gloo")]
print(json.dumps({"horovod." + kind: ",".join(facts[kind]) or "none" for kind in facts}))
