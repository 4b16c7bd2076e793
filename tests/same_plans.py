"""Compare what two checkouts plan and print for 300 launches: python3 -m tests.same_plans OTHER.

For a change that is meant to leave plans and scripts as they are. OTHER is a checkout of the commit
before, such as one of `git worktree add`. Each launch runs in both, in the same folder, among
programs that answer for Slurm; what differs is printed as a diff, and the exit code is 1.
"""

from __future__ import annotations

import concurrent.futures
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tests.cluster.state import cache_root
from tests.unit.programs import program

CHECKOUT = Path(__file__).parents[1]
CONFIG = "SLURM_VERSION = 23.11.4\\nClusterName = test\\nMaxArraySize = 1001\\nKillWait = 30 sec"
MPI_TYPES = "MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix"
# name -> what sinfo answers: partition, nodes, CPUs, GRES, time limit, disk, features.
CLUSTERS = {
    "cpu": "all*|8|32|(null)|1-00:00:00|900|(null)",
    "gpu": "gpu*|4|64|gpu:a100:4(S:0-1)|1-00:00:00|900|a100\\ncpu|8|32|(null)|12:00:00|900|(null)",
    "mixed": "all*|4|64|gpu:4|2:00:00|900|gpu\\nall*|8|64|gpu:2|2:00:00|900|gpu,old\\n"
    "all*|9|32|(null)|2:00:00|900|cpu",
    "mig": "mig*|2|64|gpu:1g.10gb:2|1-00:00:00|900|(null)",
    "local": "",
}
LABELS = {
    "cpu": {"mpi.flavour": "openmpi", "mpi.version": "4.1.4", "pmix.version": "4.2.2"},
    "gpu": {
        "mpi.flavour": "openmpi",
        "mpi.version": "4.1.4",
        "pmix.version": "4.2.2",
        "cuda.version": "12.6",
        "nccl.version": "2.23.4",
    },
    "mpich": {"mpi.flavour": "mpich", "mpi.version": "4.1.2", "pmi.client": "pmi2"},
}
ALL = {
    "horovod.controllers": "mpi,gloo",
    "horovod.version": "0.28.1",
    "recipes": "torch_mnist,tf_mnist",
    "torch.version": "2.8.0",
}
PLACES = (
    *(("cpu", "cpu"), ("gpu", "gpu"), ("gpu", "cpu"), ("mixed", "gpu"), ("mig", "gpu")),
    *(("cpu", "mpich"), ("local", "cpu"), ("neuron", "gpu"), ("alvis", "gpu"), ("tuhpc", "cpu")),
    *(("polaris", "mpich"), ("perlmutter", "mpich")),
)
SITE_OPTIONS = {
    "neuron": ("--comment", "pytorch"),
    "alvis": ("--account", "a1", "--gpus-per-node", "A100:4"),
    "perlmutter": ("--account", "m1", "--constraint", "gpu"),
    "polaris": ("--account", "m1"),
}
# Words after `--image IMAGE`, which a launch ends.
LAUNCHES = (
    "--nodes 2 torch_mnist",
    "--nodes 2",
    "--nodes 4 --controller gloo torch_mnist",
    "--nodes 2 --controller mpi tf_mnist",
    "--nodes 2 --ntasks-per-node 4 --cpus-per-task 2 torch_mnist -- --epochs 2",
    "--nodes 2 --gpus-per-node 2 torch_mnist",
    "--nodes 2 --gpus-per-task 1 --ntasks-per-node 2 torch_mnist",
    "--launcher torchrun --nodes 2 my_ddp.py",
    "--launcher horovodrun --nodes 2 train.py -- --lr 0.1",
    "--controller none --nodes 1 train.py",
    "--nodes 2 --time 00:30:00 --requeue torch_mnist",
    "--nodes 2 --data data torch_mnist",
    "--nodes 2 --bind data:/data:ro --env SEED=1 train.py -- --data /data",
    "--nodes 2 --stage-image node-local torch_mnist",
    "--array 4 --time 00:10:00 train.py",
    "--sweep lr=0.1,0.2 --nodes 1 train.py",
    "--nodes 2 --partition gpu --constraint a100 torch_mnist",
    "--nodes 2 --host-mpi torch_mnist",
    "--nodes 2 --nv torch_mnist",
    "--nodes 2 --no-nv --timeline-filename trace.json torch_mnist",
    "--nodes 2 --env MASTER_PORT=29500 --dependency afterok:1 train.py",
    "--nodes 2 --sbatch-arg=--qos=high --srun-arg=--label --apptainer-arg=--cleanenv train.py",
    "--nodes 99 --account project torch_mnist",
    "--nodes 2 missing.py",
    "--nodes two torch_mnist",
)


def launches() -> Iterator[tuple[str, list[str]]]:
    """Yield cluster or site, and words of `runner`."""
    for (place, image), words in product(PLACES, LAUNCHES):
        reference = f"images/{image}" if place != "perlmutter" else "ada/horovod:1"
        head = ["launch", "--dry-run", "--image", reference, *SITE_OPTIONS.get(place, ())]
        yield place, [*head, *words.split()]


def make_world(folder: Path) -> None:
    """Write images, scripts, data, and a folder of programs for each cluster."""
    for name, labels in LABELS.items():
        known = folder / "work/images" / name / ".singularity.d/labels.json"
        known.parent.mkdir(parents=True)
        known.write_text(json.dumps({**ALL, **labels}))
    (folder / "work/data").mkdir()
    (folder / "work/data/tokens").write_bytes(bytes(1000))
    (folder / "work/train.py").write_text("import horovod.torch as hvd\nhvd.init()\n")
    (folder / "work/my_ddp.py").write_text("from torch import distributed as d\nd.get_rank()\n")
    for cluster, partitions in CLUSTERS.items():
        programs = folder / cluster
        program(programs / "apptainer", "echo apptainer version 1.3.6")
        if partitions:
            program(programs / "sinfo", f"printf '{partitions}\\n'")
            program(programs / "scontrol", f"printf '{CONFIG}\\n'")
            program(programs / "srun", f"printf '{MPI_TYPES}\\n'")
            program(programs / "sbatch", "echo slurm 23.11.4")


def printed(checkout: Path, folder: Path, place: str, words: list[str]) -> str:
    """Return the exit code and all that `runner` of a checkout prints for a launch."""
    programs, site = (place, []) if place in CLUSTERS else ("local", ["--site", place])
    done = subprocess.run(
        [sys.executable, "-m", "runners", words[0], *site, *words[1:]],
        cwd=folder / "work",
        env={
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PATH": f"{folder / programs}:/usr/bin:/bin",
            "PYTHONPATH": str(checkout),
            "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", ""),
            "USER": "ada",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return text.replace(str(checkout), "CHECKOUT")


def main(other: Path) -> int:
    """Print the differences; return 1 where there are any."""
    cache = cache_root(os.environ)  # not /tmp, which the nodes of a job do not share
    folder = Path(tempfile.mkdtemp(prefix="same-plans.", dir=cache))
    try:
        make_world(folder)
        cases = list(launches())
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            before, after = (
                list(pool.map(lambda case, c=c: printed(c, folder, *case), cases))
                for c in (other, CHECKOUT)
            )
    finally:
        shutil.rmtree(folder)
    different = [trio for trio in zip(cases, before, after) if trio[1] != trio[2]]
    for (place, words), old, new in different:
        print(f"=== {place}: runner {' '.join(words)}")
        print("\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)))
    ended = sum(text.startswith("exit code 0") for text in after)
    print(f"{len(cases)} launches, {ended} of them planned: {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
