"""Starts jobs that only meet, by number of ranks and in turns; prints their times as JSON.

{"RANKS": {KIND: [job]}} of the kinds pmix, gloo, horovod-mpi and horovod-gloo; a job has
`seconds` from the last rank's beginning to the last rank's end: what the meeting costs, and
not how long a busy machine takes to start so many processes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..rounds import interleaved

KIT = Path(__file__).resolve().parents[3]
HOROVOD = """
import ctypes, importlib.util, json, os, time
from horovod.common import basics, process_sets
lib = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so"):
    ctypes.CDLL(os.path.join(lib, name), mode=ctypes.RTLD_GLOBAL)
inside = os.path.dirname(importlib.util.find_spec("horovod").origin)
hvd = basics.HorovodBasics(os.path.join(inside, "torch", "__init__.py"), "mpi_lib_v2")
process_sets._setup(hvd)
began = time.time()
hvd.init()
print(json.dumps({"rank": hvd.rank(), "began": began, "ended": time.time()}))
hvd.shutdown()
"""


def srun(mpi: str, ranks: int, command: list[str]) -> dict[str, Any]:
    """Run a job on two nodes; return its seconds and rank 0's other numbers."""
    words = ["srun", f"--mpi={mpi}", "-N2", f"-n{ranks}", "--overcommit", "--kill-on-bad-exit=1"]
    # Ranks that share a core must not spin on it.
    env = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
    env["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    done = subprocess.run([*words, *command], stdout=subprocess.PIPE, text=True, env=env)
    # The shim writes `rank@host | ` before each line.
    lines = [line.partition("| ")[2] or line for line in done.stdout.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if done.returncode or len(found) != ranks:
        sys.exit(f"exit code {done.returncode} from: {' '.join(words)}\n{done.stdout[-2000:]}")
    seconds = max(answer["ended"] for answer in found) - max(answer["began"] for answer in found)
    first = next(answer for answer in found if answer["rank"] == 0)
    requests = sum(answer.get("requests", 0) for answer in found)
    return {**first, "seconds": seconds, "requests": requests}


def probe(kind: str, ranks: int, root: Path) -> dict[str, Any]:
    """Run a job of nothing but the meeting, on the nodes themselves."""
    folder = tempfile.mkdtemp(dir=root)
    python = ["env", "-C", str(KIT), "python3", "-B", "-m", "tests.bench.login.meeting"]
    return srun("pmix" if kind == "mpi" else "none", ranks, [*python, kind, folder])


def horovod(controller: str, image: str, ranks: int, root: Path) -> dict[str, Any]:
    """Run a job of real Horovod in the image, under the shim."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "meet.py").write_text(HOROVOD, encoding="utf-8")
    shutil.copytree(KIT / "runners" / "injob", folder / "injob")
    shutil.copytree(KIT / "runners" / "contract", folder / "injob" / "contract")
    shim = [
        "python3",
        str(folder / "injob"),
        "rank",
        "--controller",
        controller,
        "--run-dir",
        str(folder),
    ]
    words = ["apptainer", "exec", "--bind", str(folder), image, *shim, "--", f"{folder}/meet.py"]
    return srun("pmix" if controller == "mpi" else "none", ranks, words)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    parser.add_argument("--folder", required=True, help="on a file system of all nodes")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", required=True)
    parser.add_argument("--horovod", type=int, nargs="+", required=True, help="ranks in the image")
    options = parser.parse_args()
    found: dict[int, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        root = Path(name)
        for ranks in options.ranks:
            light = {
                "pmix": functools.partial(probe, "mpi", ranks, root),
                "gloo": functools.partial(probe, "gloo", ranks, root),
            }
            found[ranks] = interleaved(light, options.rounds)
        for ranks in options.horovod:
            heavy = {
                f"horovod-{controller}": functools.partial(
                    horovod, controller, options.image, ranks, root
                )
                for controller in ("mpi", "gloo")
            }
            found[ranks].update(interleaved(heavy, options.rounds if ranks <= 8 else 1))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
