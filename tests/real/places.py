"""Jobs of the shim itself, whose ranks say where Horovod puts them.

The shim runs as a batch script runs it, without `runner`: these tests choose launchers, counts and
distributions that a plan might not.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from .conftest import UNPACKED, Done, Login

# A real allreduce: its sum shows that all ranks took part, once each.
TRAINER = """
import json, os, sys
import torch
import horovod.torch as hvd
hvd.init()
names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
place = {name: getattr(hvd, name)() for name in names}
total = int(hvd.allreduce(torch.ones(1) * 2 ** hvd.rank(), op=hvd.Sum))
interface = os.environ.get("HOROVOD_GLOO_IFACE")
print("PLACE", json.dumps({**place, "total": total, "interface": interface}))
hvd.shutdown()
"""
# The same Horovod without torch's Python, whose import takes a rank two seconds of a CPU.
BARE = """
import ctypes, importlib.util, json, os
from horovod.common import basics, process_sets
lib = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so"):
    ctypes.CDLL(os.path.join(lib, name), mode=ctypes.RTLD_GLOBAL)
inside = os.path.dirname(importlib.util.find_spec("horovod").origin)
hvd = basics.HorovodBasics(os.path.join(inside, "torch", "__init__.py"), "mpi_lib_v2")
process_sets._setup(hvd)
"""
BARE_TRAINER = f"""{BARE}
hvd.init()
names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
print("PLACE", json.dumps({{name: getattr(hvd, name)() for name in names}}))
hvd.shutdown()
"""


def prepare(login: Login) -> None:
    """Put the shim and the trainers into the folder."""
    login.sh("cp -r /opt/kit/runners/injob injob; cp -r /opt/kit/runners/contract injob")
    login.write("place.py", TRAINER)
    login.write("bare.py", BARE_TRAINER)


def shim(controller: str, *options: str, run_dir: str = "run", trainer: str = "place.py") -> str:
    """Return the words of one rank, as text for a shell in the folder."""
    container = ["apptainer", "exec", "--bind", "/scratch", UNPACKED]
    rank = ["python3", "injob", "rank", "--controller", controller, "--run-dir", run_dir, *options]
    return shlex.join([*container, *rank, "--", trainer])


def run(login: Login, script: str, timeout: float = 300) -> Done:
    """Run a shell script in the folder, with an empty folder for its run."""
    return login.run("bash", "-c", f"rm -rf run; mkdir run; {script}", timeout=timeout)


def places(done: Done) -> dict[int, dict[str, Any]]:
    """Return what each rank said, with its `host`. Fails when the job did."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        name, _, said = line.rpartition("| PLACE ")
        if name:
            place = {**json.loads(said), "host": name.split("@")[1].strip()}
            found[place["rank"]] = place
    return found


def check(found: dict[int, dict[str, Any]], size: int) -> None:
    """See that they are one world of `size`, and one grid of local and cross ranks."""
    assert sorted(found) == list(range(size))
    hosts = list(dict.fromkeys(found[rank]["host"] for rank in range(size)))
    on = {host: [rank for rank in range(size) if found[rank]["host"] == host] for host in hosts}
    for rank, place in found.items():
        local, ranks = place["local_rank"], on[place["host"]]
        with_it = [host for host in hosts if len(on[host]) > local]
        assert place["size"] == size
        assert place.get("total", 2**size - 1) == 2**size - 1
        assert (place["local_size"], ranks[local]) == (len(ranks), rank)
        assert place["cross_size"] == len(with_it)
        assert place["cross_rank"] == with_it.index(place["host"])
