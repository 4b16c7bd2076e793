"""Ways in which a job really fails, each with what `runner explain` is to say of it.

Tiny trainers; those that need no tensors import no framework, which would take seconds each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .conftest import UNPACKED
from .places import BARE

INIT = f"{BARE}hvd.init()\nprint('size', hvd.size())\n"
GLOO, MPI = ("--controller", "gloo"), ("--controller", "mpi")
TWO = ("--nodes", "2")
ALONE = """\
import os
for name in list(os.environ):
    if name[:5] in ("SLURM", "PMIX_"):
        del os.environ[name]
"""


@dataclass(frozen=True)
class Cause:
    """A job and its failure.

    `trainer` is a recipe's name or the text of a file; `words` are options, `args` the trainer's.
    `before` is shell that runs before the launch, `after` while the job is held in the queue.
    `explained` is the name of the explanation; `rank` is `R@HOST` of who failed first, "" for any;
    `said` is in the cause, `shown` in the evidence, `fix` in the fix.
    """

    name: str
    trainer: str
    words: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    image: str = ""
    explained: str = ""
    rank: str = ""
    said: str = ""
    shown: str = ""
    fix: str = ""
    certainty: str = "certain"

    @property
    def is_file(self) -> bool:
        """Whether the trainer is a file's text, and no recipe's name."""
        return not self.trainer.isidentifier()


CONTAINERS = (
    Cause(
        "gone", "print('hello')", ("-w", "n1"), image="gone.sif", before="cp $IMAGE gone.sif",
        after="mv gone.sif whole.sif", explained="image-missing", rank="0@n1",
        said="gone.sif does not exist on the node", shown="could not open image", fix="ls -l ",
    ),
    Cause(
        "cut", "print('hello')", image="cut.sif",
        before="mv whole.sif cut.sif", after="truncate -s 300M cut.sif",
        explained="image-not-whole", said="cut.sif could not be read to its end", shown="squashfs",
        fix="runner verify cut.sif", certainty="likely",
    ),
    Cause(
        "bind", "print('hello')", ("--bind", "there:/there"), before="mkdir there",
        after="rmdir there", explained="bind-missing", said="does not exist on the node",
        shown="mount source", fix="ls -ld ",
    ),
    Cause(
        "target", "print('hello')", ("-B/dev/shm:/m", "-B", "spare:/dev/mine"),
        before="mkdir spare", explained="bind-target-missing", said="target /dev/mine",
        shown="doesn't exist", fix="--bind /dev/shm:/m --bind spare:/mnt/mine",
    ),
    Cause(
        "below", "print('hello')", ("--bind=/usr/share:/theirs", "--bind", "spare:/theirs/mine"),
        explained="bind-target-missing", said="/mine", shown="permission denied",
        fix="--bind spare:/mnt/mine",
    ),
    Cause(
        "python", "print('hello')", ("--force",), image="box",
        before="mkdir -p box/{.singularity.d,bin,lib,lib64,proc,sys,dev,tmp,etc,home,scratch,var}; "
        "cp /bin/dash box/bin/sh; cp -L /lib64/ld-linux-x86-64.so.2 box/lib64; "
        "cp -L /lib/x86_64-linux-gnu/libc.so.6 box/lib",
        explained="program-missing", said="has no python3", shown="executable file not found",
        fix="--image horovod_cpu.sif",
    ),
)  # fmt: skip
WORLDS = (
    Cause(
        "pmi", INIT, (*MPI, *TWO, "--mpi", "none", "--force"), explained="pmi-missing",
        said="srun ran with --mpi=none", shown="SLURM's PMI support", fix="--mpi pmix",
    ),
    Cause(
        "pmi2", INIT, (*MPI, *TWO, "--mpi", "pmi2", "--force"), explained="pmi-missing",
        said="does not support srun --mpi=pmi2", fix="--controller gloo",
    ),
    Cause(
        "gds", INIT, (*MPI, *TWO, "--env", "PMIX_MCA_gds=ds21"),
        explained="pmix-directory-missing", said="cannot share memory with Slurm's",
        shown="GDS framework", fix="--env PMIX_MCA_gds=hash",
    ),
    Cause(
        "psec", INIT, (*MPI, *TWO, "--env", "PMIX_MCA_psec=munge"), explained="pmix-security",
        shown="PSEC framework", fix="--env PMIX_MCA_psec=native",
    ),
    Cause(
        "pml", INIT, (*MPI, *TWO, "--env", "OMPI_MCA_pml=nope"), explained="ompi-no-component",
        said="asks for a component (nope)", shown="requested component was not found",
        fix="env | grep OMPI_MCA_", certainty="likely",
    ),
    Cause(
        "quits", "import os, threading, time\nif os.environ['SLURM_PROCID'] == '1':\n"
        f"    time.sleep(60)\n{BARE}"
        "threading.Timer(3, lambda: os._exit(3)).start()\nhvd.init()\n",
        (*GLOO, *TWO), explained="no-world", rank="0@n1", said="ended within hvd.init()",
        certainty="unsure",
    ),
    Cause(
        "alone", ALONE + INIT, (*MPI, *TWO, "--mpi", "none", "--force"),
        explained="size-mismatch", said="2 ranks were started, but Horovod has world size 1",
        shown="2 ranks were started", fix="--controller gloo",
    ),
    Cause(
        "changed", "import os\nos.environ['HOROVOD_CONTROLLER'] = 'mpi'\n"
        "os.environ['HOROVOD_CPU_OPERATIONS'] = 'mpi'\n" + INIT, (*GLOO, *TWO),
        explained="controller-changed", said="HOROVOD_CONTROLLER", fix="--controller mpi",
    ),
    Cause(
        "interface", INIT, (*GLOO, *TWO, "--network-interfaces", "ib9"),
        image="horovod_cpu.sif",
        explained="wrong-interface", said="no network interface ib9 with an address; it has eth0",
        fix="runner launch --nodes 2 --controller gloo --job-name interface "
        "--image horovod_cpu.sif interface/interface.py",
    ),
    Cause(
        "late", "import os, time\ntime.sleep(100 * int(os.environ['SLURM_PROCID']))\n" + INIT,
        (*GLOO, *TWO, "--env", "HOROVOD_GLOO_TIMEOUT_SECONDS=20"),
        explained="rank-did-not-come", rank="1@n2", said="did not come to hvd.init() in time",
        fix="--env HOROVOD_GLOO_TIMEOUT_SECONDS=600", certainty="likely",
    ),
    Cause(
        "left", "import os, time\nif os.environ['SLURM_PROCID'] == '1':\n"
        "    time.sleep(9)\n    raise SystemExit\n" + INIT,
        (*GLOO, *TWO), explained="ranks-alone", rank="1@n2",
        said="ran alone", fix="--no-gate", certainty="likely",
    ),
    Cause(
        "unlike", "import torch, horovod.torch as hvd\nhvd.init()\n"
        "hvd.allreduce(torch.zeros(3 + hvd.rank()), name='x')\n", (*GLOO, *TWO),
        explained="ranks-differ", said="Mismatched ALLREDUCE tensor shapes",
        shown="unlike.py\", line 3", fix="+3 ",
    ),
    Cause(
        "twice", "import torch, horovod.torch as hvd\nhvd.init()\nx = torch.zeros(10**6)\n"
        "a = [hvd.allreduce_async(x, name='x') for i in range(9)]\n", (*GLOO, *TWO),
        explained="duplicate-name", said="one name for two operations", fix="+4 ",
    ),
    Cause(  # of torch.distributed, whose rank 0 fails too
        "peers", "import os, torch, torch.distributed as dist\n"
        "os.environ.update(MASTER_ADDR='n1', MASTER_PORT='29511',\n"
        "    RANK=os.environ['SLURM_PROCID'], WORLD_SIZE='2')\n"
        "dist.init_process_group('gloo')\nfor i in range(9):\n"
        "    dist.all_reduce(torch.ones(4))\n"
        "    if i == dist.get_rank() * 3 + 1 == 4: raise ValueError('boom')\n", (*GLOO, *TWO),
        explained="rank-exception", rank="1@n2", said="ValueError: boom", fix="+7 ",
    ),
    Cause(
        "second", "import os, horovod.torch as hvd\nhvd.init()\nif hvd.rank() == 1:\n"
        "    raise ValueError('boom')\nimport torch\nhvd.allreduce(torch.zeros(3))\n",
        (*GLOO, *TWO), explained="rank-exception", rank="1@n2", said="ValueError: boom",
        shown="second.py\", line 4", fix="+4 ",
    ),
)  # fmt: skip
# Words that errors have, in a log of a job that does not fail for them
NOISE = """\
import sys, warnings
print("Error rate 0.3, 0 errors; FATAL: none; No space left on device was not seen")
warnings.warn("Permission denied: only a warning")
try:
    open("/nowhere")
except OSError as error:
    print("OSError: [Errno 28] No space left on device:", error, file=sys.stderr)
"""
WELL = Cause("well", NOISE, explained="completed")
PYTHON = (
    Cause("noisy", NOISE + "raise KeyError('weights')", explained="key-missing",
          said="KeyError: 'weights'", shown="noisy.py\", line 8", fix="+8 "),
    # The error was handled, and nobody knows why it ended: the line is shown, as a guess.
    Cause("silent", NOISE + "import os\nos._exit(9)", explained="disk-full", certainty="unsure"),
    Cause("chained", "try:\n    open('/dev/full', 'wb', 0).write(b'x')\nexcept OSError as error:\n"
          "    raise RuntimeError('no checkpoint') from error", explained="disk-full",
          shown="No space left", certainty="likely"),
    Cause(
        "module", "import wandb", explained="python-module-missing", said="no module wandb",
        shown="ModuleNotFoundError", fix="echo wandb >> more.txt && runner build --from ",
    ),
    Cause(
        "misspelt", "import tqdmm", explained="python-module-missing", said="did you mean tqdm?",
        fix="misspelt.py && runner launch",
    ),
    Cause(
        "nojax", "import horovod.jax", explained="no-horovod", said="has no horovod.jax",
        fix="--image horovod_cpu.sif",
    ),
    Cause(
        "horovod", "import horovod.torch", explained="hidden-module", said="named horovod.py",
        fix="find . -name horovod.py",
    ),
    Cause(
        "leak", "import numpy",
        ("--env", "PYTHONPATH=/home/ada/.local/lib/python3.11/site-packages"),
        before="mkdir -p ~/.local/lib/python3.11/site-packages/numpy; "
        "echo 'from . import core9' > ~/.local/lib/python3.11/site-packages/numpy/__init__.py",
        explained="import-leak", said="from your home", shown=".local/lib/python3.11",
        fix="--env PYTHONPATH=",
    ),
    Cause(
        "envmodule", "print('hello')", ("--module", "nope"), explained="environment-module-missing",
        said="module nope could not be loaded", shown="module: command not found",
        fix="runner launch --job-name",
    ),
    Cause(
        "syntax", "import os\nif True print(os)", explained="syntax-error", said="invalid syntax",
        shown="line 2", fix="+2 ",
    ),
    Cause(
        "words", "import sys; sys.exit('no weights were given')", explained="trainer-gave-up",
        said="no weights were given",
    ),
    Cause("code", "import os; os._exit(7)", explained="unknown", said="exit code 7",
          certainty="unsure"),
    Cause(
        "code-of-two", "import os, sys; sys.exit(int(os.environ['SLURM_PROCID']) < 1)",
        ("--ntasks-per-node", "2", "--no-gate"), explained="unknown", rank="0@n1",
        said="exit code 1", certainty="unsure",
    ),
)  # fmt: skip
LIBRARIES = (
    Cause(
        "glibc", "import ctypes; ctypes.CDLL('/theirs/libsystemd.so.0')",
        ("--bind", "/usr/lib/x86_64-linux-gnu:/theirs"), explained="glibc-mismatch",
        said="/theirs/libsystemd.so.0 needs GLIBC_2.", fix="runner launch --job-name",
    ),
    Cause(
        "cuda", "import ctypes; ctypes.CDLL('libcuda.so.1')", explained="nvidia-library-missing",
        said="driver, which is not in the container", fix="--nv", certainty="likely",
    ),
    Cause(
        "driver", "print('hello')", ("--nv", "--force", "-w", "n1"), explained="driver-mismatch",
        said="n1 has no NVIDIA driver", fix="--no-nv",
    ),
    Cause(
        "nogpu", "import torch; torch.zeros(1).cuda()", explained="cpu-image",
        said="is for CPUs only", fix="--image horovod_gpu.sif --gpus-per-node 1",
        certainty="likely",
    ),
)  # fmt: skip
FILES = (
    Cause(
        "disk", "with open('/full/x', 'wb', 0) as f:\n    for i in range(9): f.write(bytes(10**6))",
        ("--bind", "full:/full", "-w", "n1"), explained="disk-full",
        said="no space left on the device", shown="No space left", fix="df -h",
        certainty="likely",
    ),
    Cause(
        "allowance", "with open('/limited/x', 'wb', 0) as f:\n    f.write(bytes(10**6))",
        ("--bind", "limited:/limited", "-w", "n1"), explained="quota", said="quota",
        shown="Disk quota exceeded", fix="quota -s",
    ),
    Cause(
        "opened", "open('/nowhere/else/x.npy')", explained="file-missing",
        said="opens /nowhere/else/x.npy", fix="--bind /nowhere/else",
    ),
    Cause(
        "readonly", "open('/opt/x', 'w')", explained="read-only", said="OUTPUT_DIR", fix="+1 ",
    ),
    Cause(
        "secret", "open('secret.txt')", before="touch secret.txt; chmod 0 secret.txt",
        explained="permission-denied", said="cannot open secret.txt", fix="ls -ld secret.txt",
    ),
    Cause("many", "x = [open('/dev/null') for i in range(10**7)]",
          explained="too-many-open-files", said="ulimit -n"),
    Cause(
        "nodata", "torch_mnist", args=("--epochs", "1"), image=UNPACKED,
        words=("--data", "empty"), before="mkdir empty; touch empty/readme",
        explained="data-missing", said="no MNIST in /data", fix="/empty",
    ),
)  # fmt: skip
TRAINING = (
    Cause(
        "nan", "torch_mnist", (*GLOO, *TWO), ("--base-lr", "1e30"),
        explained="training-diverged", said="the loss is nan in step", fix="--base-lr 0.01",
    ),
    Cause(
        "argument", "from recipes.torch_mnist import main\nmain()", (*GLOO, *TWO), ("--epoch", "1"),
        explained="bad-argument", said="unrecognized arguments: --epoch 1",
        fix="argument.py --help",
    ),
    Cause(
        "usage", "import argparse\np = argparse.ArgumentParser()\np.parse_args()",
        args=("--lr", "0.1"), explained="bad-argument", said="unrecognized arguments: --lr 0.1",
        fix="usage.py --help",
    ),
    Cause(  # srun ends the slower rank, and the job's exit code is that rank's
        "sooner", "import argparse, os, time\ntime.sleep(40 * int(os.environ['SLURM_PROCID']))\n"
        "p = argparse.ArgumentParser()\np.parse_args()", TWO, ("--lr", "0.1"),
        explained="bad-argument", rank="0@n1", said="unrecognized arguments: --lr 0.1",
        fix="sooner.py --help",
    ),
    Cause(
        "port", "import socket, time\ns = socket.socket()\ns.bind(('127.0.0.1', 23456))\n"
        "s.listen()\ntime.sleep(30)", ("-w", "n1", "--ntasks-per-node", "2"),
        explained="port-in-use",
        said="listens on a port that is already in use", fix="srun -w n1 ss -ltnp",
    ),
    Cause(
        "memory", "x = bytearray(10**15)", args=("--batch-size", "64"),
        explained="memory-refused", said="could not allocate memory",
        fix="--batch-size 32",
    ),
    Cause(
        "download", "from urllib.request import urlopen\nurlopen('http://mnist.example/x.gz')",
        explained="no-network", said="does not know its name", fix="download it here",
        certainty="likely",
    ),
)  # fmt: skip
LAST = (
    Cause(
        "runtime", "print('hello')", ("--runtime", "podman-hpc", "--force"), image="localhost/kit",
        before="mkdir /tmp/$$; ln -s /usr/bin/apptainer /tmp/$$/podman-hpc; PATH=/tmp/$$:$PATH",
        explained="runtime-missing", said="podman-hpc is not on the PATH",
        fix="--module podman-hpc", certainty="likely",
    ),
)  # fmt: skip


def unpacked(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return causes that lie in what the ranks do, with the image in which they start sooner."""
    return tuple(replace(cause, image=cause.image or UNPACKED) for cause in causes)


ALL = (*CONTAINERS, *unpacked(WORLDS), *PYTHON, *LIBRARIES, *FILES, *unpacked(TRAINING), *LAST)
