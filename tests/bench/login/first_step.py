"""Submits the same training by runner and by hand, in turns; prints {case: [times]} as JSON.

`total` is from just before the submitting command starts to the end of the first training step,
`submit` the part until that command has ended, `wait` from then until Slurm starts the script,
`trainer` the part from the trainer's own start on. All in seconds of one clock: the nodes are one
machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ..rounds import interleaved

TRAINING = ["--epochs", "1", "--max-steps", "1"]
PATIENCE = 180  # seconds for one job
BY_HAND = """\
#!/bin/bash
#SBATCH --job-name=by_hand --output={folder}/log.txt
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=10
export OMP_NUM_THREADS=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
srun --mpi=pmix --cpus-per-task=1 apptainer exec --bind {folder} {image} \\
  python3 -m recipes.torch_mnist {arguments} --output {folder}
"""


def by_hand(image: str, root: Path) -> dict[str, float]:
    """One repetition with a script as one writes it by hand."""
    folder = Path(tempfile.mkdtemp(dir=root))
    script = folder / "job.sbatch"
    text = BY_HAND.format(folder=folder, image=image, arguments=" ".join(TRAINING))
    script.write_text(text, encoding="utf-8")
    began = time.time()
    id = _output(["sbatch", "--parsable", str(script)], folder).strip()
    return _times(began, time.time(), id, folder, folder / "log.txt")


def by_runner(controller: str, image: str, root: Path) -> dict[str, float]:
    """One repetition with `runner launch`."""
    return launched(["--image", image, "--controller", controller, "--nodes", "2"], root)


def launched(asked: list[str], root: Path) -> dict[str, float]:
    """The times of one job of `runner launch` with these options, a rank to a node by default."""
    folder = Path(tempfile.mkdtemp(dir=root))
    options = ["--json", "--ntasks-per-node", "1", "--cpus-per-task", "1", "--time", "10", *asked]
    began = time.time()
    words = ["runner", "launch", *options, "torch_mnist", "--", *TRAINING]
    job = json.loads(_output(words, folder))
    return _times(began, time.time(), job["id"], Path(job["folder"]), Path(job["log"]))


def _output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _times(began: float, submitted: float, id: str, folder: Path, log: Path) -> dict[str, float]:
    result = _result(id, folder / "result.json", log)
    return {
        "total": result["first_step_unix_time"] - began,
        "submit": submitted - began,
        "wait": _born(log) - submitted,
        "trainer": result["startup_seconds"],
    }


def _born(log: Path) -> float:
    """When Slurm made the job's log, which it does just before it starts the script."""
    text = _output(["stat", "--format=%.6W", str(log)], log.parent)
    if float(text) == 0:
        sys.exit(f"the file system of {log} keeps no times of birth")
    return float(text)


def _result(id: str, path: Path, log: Path) -> dict[str, Any]:
    """The trainer's result, once the job has left the nodes; exits with the log when it has none.

    Slurm is asked seldom: the question itself costs what is being measured.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(1)
        if not _output(["squeue", "--noheader", "--jobs", id], path.parent).strip():
            break
    if not path.exists():
        shown = log.read_text(errors="replace")[-2000:] if log.exists() else "it has no log"
        sys.exit(f"job {id} left no result within {PATIENCE} s:\n{shown}")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--folder", required=True, help="on a file system of all nodes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        image, root = options.image, Path(name)
        cases = {
            "hand": functools.partial(by_hand, image, root),
            "mpi": functools.partial(by_runner, "mpi", image, root),
            "gloo": functools.partial(by_runner, "gloo", image, root),
        }
        interleaved(cases, 1)  # fills the page cache; not counted
        print(json.dumps(interleaved(cases, options.rounds)))


if __name__ == "__main__":
    main()
