"""Batch scripts on the cluster: the script itself and its launch line do the same."""

from __future__ import annotations

import json

import pytest

from tests.documents import ROOT, blocks

from .conftest import IMAGE, UNPACKED, Login
from .places import BARE

DDP = """
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1) * int(os.environ["RANK"])
dist.all_reduce(total)
if dist.get_rank() == 0:
    print("ANSWER", dist.get_world_size(), int(total), sys.argv[1:], flush=True)
dist.destroy_process_group()
"""
HOROVOD = f"""{BARE}
import sys

hvd.init()
if hvd.rank() == 0:
    print("ANSWER", hvd.size(), sys.argv[1:], flush=True)
hvd.shutdown()
"""
DDP_JOB = f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 -t 5 -J pair
#SBATCH --output=job.log
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=$((SLURM_JOB_ID % 10000 + 20000))
export WORLD_SIZE=$SLURM_NTASKS OMP_NUM_THREADS=1
ARGS=(--name "two words" --job $SLURM_JOB_NAME --of $SLURM_JOB_PARTITION)
srun apptainer exec {UNPACKED} bash -c 'RANK=$SLURM_PROCID python train.py "$@"' _ "${{ARGS[@]}}"
"""
AGENT_JOB = f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 -t 5 -J agents
#SBATCH --output=job.log
HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
echo 'set -- nothing' > env.sh
srun apptainer exec {UNPACKED} bash -c "source ./env.sh && torchrun --nnodes 2 --nproc_per_node 2 \\
    --rdzv_backend c10d --rdzv_endpoint $HEAD:29477 train.py --job $SLURM_JOB_NAME"
"""
# Its log is led elsewhere, and the variables are for the container.
LED_JOB = f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 -t 5 -J led
#SBATCH --output=/dev/null
exec > job.log 2>&1
export APPTAINERENV_MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export APPTAINERENV_MASTER_PORT=$((SLURM_JOB_ID % 10000 + 20000))
export APPTAINERENV_WORLD_SIZE=$SLURM_NTASKS APPTAINERENV_OMP_NUM_THREADS=1
srun apptainer exec {UNPACKED} bash -c 'RANK=$SLURM_PROCID python train.py --led'
"""
HOROVOD_JOB = f"""#!/bin/bash
#SBATCH -N 2
#SBATCH -n 4
#SBATCH --output=job.log
export HOROVOD_LOG_LEVEL=warning
srun --mpi=pmix apptainer exec {UNPACKED} python train.py --epochs $((2 * 3))
"""


def convert(login: Login, *words: str) -> tuple[int, str]:
    done = login.runner("convert", *words)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def answer(text: str) -> str:
    """Return what rank 0 says of its process group and its arguments."""
    return next(line.partition("ANSWER ")[2] for line in text.splitlines() if "ANSWER " in line)


@pytest.mark.parametrize(
    ("trainer", "job"),
    [(DDP, DDP_JOB), (DDP, AGENT_JOB), (DDP, LED_JOB), (HOROVOD, HOROVOD_JOB)],
    ids=["ddp", "agents", "led", "horovod"],
)
def test_the_line_does_what_the_script_does(login: Login, trainer: str, job: str) -> None:
    login.write("train.py", trainer)
    login.write("job.sh", job)
    login.sh("sbatch --wait job.sh")
    told = answer(login.sh("cat job.log; rm job.log"))
    code, shown = convert(login, "job.sh")
    assert code == 0
    line = shown.splitlines()[0]
    assert "<" not in line, shown
    log = login.sh(f"{line.replace('runner launch', 'runner launch --follow', 1)}")
    assert answer(log) == told == answer(login.sh("cat job.log"))


def test_the_guide_shows_what_is_printed(login: Login) -> None:
    page = blocks(ROOT / "docs" / "guides" / "batch-scripts.md")
    job = next(block for block in page if "file" in block.marks)
    shown = next(block.text for block in page if block.language == "text")
    login.write(job.marks["file"], job.text)
    assert convert(login, "job.sh") == (0, shown)
    code, text = convert(login, "--check", "--json", "job.sh")
    assert code == 1
    ids = [found["id"] for found in json.loads(text)["diagnoses"]]
    assert ids == ["port-fixed", "pipe-exit-code"]


def test_the_image_tells_which_mpi_it_speaks(login: Login) -> None:
    script = f"#!/bin/bash\n#SBATCH -n 2\nsrun --mpi={{}} apptainer exec {IMAGE} python train.py\n"
    login.write("job.sh", script.format("pmi2"))
    code, text = convert(login, "--check", "job.sh")
    assert code == 1
    assert text.startswith("line 3: mpi-plugin: ")
    assert "right: --mpi=pmix" in text
    login.write("job.sh", script.format("pmix"))
    assert convert(login, "--check", "job.sh") == (0, "")


def test_the_limit_of_a_partition_is_asked(login: Login) -> None:
    limit = login.sh("sinfo --noheader --format=%l | head -n 1").strip()
    login.write("job.sh", "#!/bin/bash\n#SBATCH --time=400-00:00:00\nsrun python train.py\n")
    _, text = convert(login, "--check", "job.sh")
    assert ("time-limit" in text) is (limit != "infinite"), text


def test_the_slurm_of_this_machine_takes_over_the_cpus(login: Login) -> None:
    """Slurm 24.11 does, and then it is no finding."""
    login.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH -n 1 -c 2 -o job.log\nsrun bash -c 'echo CPUS $SLURM_CPUS_PER_TASK'\n"
        "srun python train.py\n",
    )
    login.sh("echo > train.py; sbatch --wait job.sh || true")
    assert "CPUS 2" in login.sh("cat job.log")
    assert convert(login, "--check", "job.sh") == (0, "")
