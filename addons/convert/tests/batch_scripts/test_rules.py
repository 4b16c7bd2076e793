"""Rules: each finds its mistake, and none where a script only looks like it."""

from __future__ import annotations

import re

import pytest

from runner_convert.batch_scripts.rules import RULES
from runners.core.site import Partition, Profile, Rules, Site
from tests import documents

from .read_script import codes, found, read

CLUSTER = Site(partitions=(Partition("short", time_limit="1-00:00:00", default=True),))
GPUS = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
ONE_EACH = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
EXCLUSIVE = "#SBATCH --exclusive\n"


PAGE = documents.REFERENCE / "batch-findings.md"
FENCE = r"```bash\n(.*?)\n```"
EXAMPLES = re.compile(rf"## (\S+)\n.*?Found in:\n\n{FENCE}\n\nRight:\n\n{FENCE}", re.DOTALL)


def examples() -> dict[str, tuple[str, str]]:
    """Return the scripts of the documentation by code, as they are in a file."""
    page = PAGE.read_text(encoding="utf-8").replace("^M", "\r")
    return {code: (wrong, right) for code, wrong, right in EXAMPLES.findall(page)}


def test_each_rule_has_its_page() -> None:
    assert sorted(examples()) == sorted(RULES)


# mpi-plugin needs an image: tests/real/test_batch_scripts.py.
@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        pytest.param(*(code, *shown), id=code)
        for code, shown in examples().items()
        if code != "mpi-plugin"
    ],
)
def test_the_examples_of_the_documentation(code: str, wrong: str, right: str) -> None:
    assert code in codes(wrong, CLUSTER)
    assert codes(right, CLUSTER) == set()


# What is right, and looks like a mistake.
RIGHT = {
    "one agent for each rank": GPUS
    + "srun torchrun --nnodes=8 --nproc_per_node=1 --rdzv_endpoint=$H:$P train.py",
    "an agent on each node": ONE_EACH + "srun torchrun --nnodes 2 --nproc_per_node 4 train.py",
    "nodes by variable": ONE_EACH
    + "srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE train.py",
    "workers on CPUs": "#SBATCH --nodes=1\n#SBATCH --ntasks=16\n#SBATCH --gres=gpu:1\n"
    "mpirun python a3c.py",
    "a rank of one task": "#SBATCH --ntasks=1\nexport RANK=$SLURM_PROCID\nsrun python train.py",
    "a rank that each task sets": GPUS
    + "export RANK=0\nsrun bash -c 'RANK=$SLURM_PROCID python t.py'",
    "an agent of one task": ONE_EACH
    + "srun -n 1 torchrun --standalone --nproc_per_node=4 train.py",
    "an elastic agent has no number": ONE_EACH
    + "srun torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID "
    "--rdzv_backend=c10d --rdzv_endpoint=$H:$P t.py",
    "a text over two lines": "srun python train.py 'a '\\\n'--b'",
    "all GPUs of a node": "#SBATCH --gres=gpu:1\n#SBATCH --exclusive\n"
    "CUDA_VISIBLE_DEVICES=2 python train.py",
    "a port on CSCS's whole nodes": ONE_EACH
    + "srun --environment=e torchrun --nnodes=2 --nproc_per_node=4 --master_port 29500 t.py",
    "a comment that looks like a directive": "srun python train.py\n#SBATCH WARNING: 2",
    "a text with a backslash": "#SBATCH --ntasks=4\nsrun python train.py 'a \\ \nb'",
    "elastic nodes": ONE_EACH + "srun torchrun --nnodes=1:2 --nproc_per_node=4 train.py",
    "accelerate on each node": ONE_EACH
    + "srun accelerate launch --num_machines 2 --num_processes 8 train.py",
    "a rank with all GPUs of its node": ONE_EACH + "srun python train.py",
    "a check of the nodes, then a training": GPUS + "srun hostname\nsrun python train.py",
    "a program that starts others itself": ONE_EACH + "python parsl_workflow.py",
    "GPUs of the step itself": "#SBATCH --gres=gpu:1\n#SBATCH --nodes=1\n"
    "srun -n 4 --gres=gpu:4 python train.py",
    "a task with all GPUs of its node": "#SBATCH --nodes=2\n#SBATCH --ntasks=2\n"
    "#SBATCH --gpus-per-task=8\nsrun torchrun --nnodes=2 --nproc_per_node=8 train.py",
    "GPUs that the steps share": ONE_EACH.replace("=2", "=1") + "#SBATCH --cpus-per-task=8\n"
    "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py &\n"
    "CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 train.py &\nwait",
    "all of a node's memory": "#SBATCH --mem=0\nexport MASTER_PORT=29500\nsrun python train.py",
    "CPUs by their masks": "#SBATCH --ntasks=4\n#SBATCH --cpus-per-task=7\n"
    "srun --cpu-bind=mask_cpu:0xfe,0xfe00 python train.py",
    "AMD's GPUs": GPUS + "srun singularity exec /images/torch-rocm.sif python train.py",
    "a runscript is meant": "#SBATCH --ntasks=1\napptainer run tool.sif --input data",
    "a runscript that LUMI documents": "#SBATCH --ntasks=1\n"
    "srun singularity run /appl/local/containers/torch-rocm.sif python train.py",
    "modules of the host's MPI": "#SBATCH --ntasks=2\nmodule load gcc openmpi\n"
    "mpirun -np 2 apptainer exec i.sif python train.py",
    "a Python of the host": "#SBATCH --ntasks=2\nmodule load python apptainer\n"
    "export MASTER_PORT=$(python free.py)\nsrun apptainer exec i.sif python train.py",
    "export in small letters": "#SBATCH --ntasks=2\nexport A=1\nsrun --export=all python t.py",
    "a key that is no secret": "srun python train.py --sort_key value_of_the_column",
    "a preparation on one node": GPUS + "srun -N1 -n1 python fetch.py\nsrun python train.py",
    "a study of several sizes": "#SBATCH --nodes=1\n#SBATCH --ntasks=4\n#SBATCH --gpus-per-node=4\n"
    "for n in 1 2 4; do mpirun -np $n python train.py; done",
    "whole nodes share evenly": "#SBATCH --nodes=2\n#SBATCH --ntasks=8\n#SBATCH --gpus-per-node=4\n"
    "#SBATCH --exclusive\nsrun python train.py",
    "mpirun on one node": "#SBATCH --nodes=1\n#SBATCH --ntasks=8\n"
    "apptainer exec image.sif mpirun -np 8 python train.py",
    "mpirun of the host": "#SBATCH --nodes=2\n#SBATCH --ntasks=8\n"
    "module load openmpi\nmpirun -np 8 apptainer exec image.sif python train.py",
    "no GPUs, no --nv": "#SBATCH --ntasks=4\nsrun apptainer exec image.sif python train.py",
    "--nv by what a condition chooses": GPUS
    + 'if x; then A="--nv -B /a"; else A="--nv --cleanenv"; fi\n'
    "srun apptainer exec $A i.sif bash -c 'nvidia-smi; python t.py'",
    "nodes by what a condition chooses": ONE_EACH
    + 'if x; then A="--nnodes 2 --nproc_per_node 4"; else A="--nnodes 2 --nproc_per_node 2"; fi\n'
    "srun torchrun $A t.py",
    "shared memory by what a condition chooses": "#SBATCH --ntasks=2\n"
    "if x; then A='-B /dev/shm'; else A='-B /dev/shm,/a'; fi\n"
    "srun apptainer exec -c $A i.sif python t.py",
    "--nv by its variable": GPUS + "export APPTAINER_NV=1\nsrun apptainer exec i.sif python t.py",
    "the host's scontrol": ONE_EACH
    + "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
    "srun apptainer exec --nv image.sif bash -c 'python train.py'",
    "a module for the launcher": "#SBATCH --ntasks=4\nmodule load apptainer\n"
    "srun apptainer exec image.sif python train.py",
    "modules of a step without container": "#SBATCH --ntasks=4\nmodule load cuda\n"
    "srun python train.py",
    "the host's name": "#SBATCH --nodes=2\nexport MASTER_ADDR=$(hostname -s)\nsrun python train.py",
    "an address for a person": "#SBATCH --nodes=2\necho $(hostname -i)\nsrun python train.py",
    "an address on one node": "#SBATCH --nodes=1\nMASTER_ADDR=$(hostname -i) srun python train.py",
    "a free port": "#SBATCH --nodes=2\n"
    "export MASTER_PORT=$(python -c 'import free; print(free.p)')\nsrun python train.py",
    "a port of the user's": "#SBATCH --nodes=2\nexport MASTER_PORT=${MASTER_PORT:-29500}\n"
    "srun python train.py",
    "a decimal number": EXCLUSIVE
    + "export MASTER_PORT=$((SLURM_JOB_ID % 10000 + 20000))\nsrun python train.py",
    "expr knows no octal numbers": EXCLUSIVE
    + "export MASTER_PORT=$(expr 10000 + $(echo $SLURM_JOBID | tail -c 4))\nsrun python train.py",
    "CPUs by variable": "#SBATCH --ntasks=4\n#SBATCH --cpus-per-task=8\n"
    "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nsrun python train.py",
    "CPUs without srun": "#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\npython train.py",
    "CPUs for each GPU": "#SBATCH --gpus-per-node=4\n#SBATCH --cpus-per-gpu=8\n#SBATCH --nodes=1\n"
    "torchrun --standalone --nproc_per_node=4 train.py",
    "one task with its GPU": "#SBATCH --ntasks=1\n#SBATCH --gpus-per-task=1\nsrun python train.py",
    "GPUs that are shared": "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\n"
    "#SBATCH --gres-flags=allow-task-sharing\nsrun python train.py",
    "an environment of its own": "#SBATCH --export=NONE\nunset SLURM_EXPORT_ENV\n"
    "module load python\nsrun python train.py",
    "all and one more": "#SBATCH --ntasks=4\nexport A=1\nsrun --export=ALL,B=2 python train.py",
    "Slurm's own signs": "#SBATCH --output=/scratch/%u/%x_%j.out\nsrun python train.py",
    "a script that submits itself": "#SBATCH --output=logs/%j.out\nif [ -z $SLURM_JOB_ID ]; then\n"
    "mkdir -p logs\nsbatch $0\nexit\nfi\nsrun python train.py",
    "another folder": "#SBATCH --output=logs/%j.out\nmkdir -p results\nsrun python train.py",
    "a trap": "#SBATCH --signal=B:USR1@120\ntrap 'kill -USR1 $PID' USR1\n"
    "srun python train.py & PID=$!\nwait",
    "a signal for the ranks": "#SBATCH --signal=USR1@120\nsrun python train.py",
    "pipefail": "set -euo pipefail\nsrun python train.py 2>&1 | tee log",
    "the exit code is asked": "srun python train.py | tee log\nexit ${PIPESTATUS[0]}",
    "an output file": "srun python train.py > log 2>&1",
    "a loop that waits": "for i in 1 2; do srun -n1 python train.py $i & done\nwait",
    "a head and its workers": "srun -n1 ray start --head &\nsrun python train.py",
    "a placeholder": "export WANDB_API_KEY=<your key>\nsrun python train.py",
    "a file with the secret": "export HF_TOKEN=$(cat ~/.token)\nsrun python train.py",
    "tokens of a language": "export TOKENIZERS_PARALLELISM=false MAX_TOKENS=40960000\n"
    "srun python train.py",
    "the node itself as its address": ONE_EACH + "export MASTER_ADDR=localhost\n"
    "srun -N 1 -n 1 python t.py",
    "a here-document with a shebang": "a\ncat > b <<E\n#!/bin/sh\n#SBATCH -n 1\nE\nsrun a",
    "options of a case": "case $1 in\n-a|--all)\nshift;;\n-*|--*)\nexit;;\nesac\nsrun python t.py",
    "directives in comments": "##SBATCH --time=1\n# SBATCH --time=1\n#XSBATCH --time=1\n"
    "#sbatch -n 4 a.sh\n#BTCH -n 1\nsrun python train.py",
    "a comment about batches": "#Batch - see doc\n#Batch --size is 4\nsrun python train.py",
    "a list of srun's plugins": "srun --mpi=list\nsrun --mpi list\nsrun python train.py",
    "shared memory is bound": "#SBATCH --ntasks=2\n"
    "srun apptainer exec -c -B /dev/shm:/dev/shm image.sif python train.py",
    "whole nodes of ALCF": "#PBS -l select=2:system=polaris\n#PBS -l filesystems=home:eagle\n"
    "mpiexec -n 8 --ppn 4 apptainer exec --nv image.sif python horovod_mnist.py",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_no_false_finding(text: str) -> None:
    assert codes(text) == set()


# Further forms of mistakes, with the line of the finding.
WRONG = {
    "an agent that is told of no nodes": (
        ONE_EACH + "srun torchrun --nproc_per_node=4 train.py",
        (4, "rank-count"),
    ),
    "fewer tasks than nodes": (
        "#SBATCH --nodes=4\n#SBATCH --ntasks=1\nsrun python train.py",
        (2, "rank-count"),
    ),
    "one CPU for two ranks": (
        "#SBATCH -n 1 -c 1\n#SBATCH --gres=gpu:2\ntorchrun --nproc_per_node=2 train.py",
        (3, "cpus-missing"),
    ),
    "the rank of the script's shell": (
        GPUS + "export RANK=$SLURM_PROCID\nsrun python train.py",
        (4, "no-rank-variables"),
    ),
    "blanks in an assignment": ("ARGS = '--lr 1'\nsrun python train.py $ARGS", (1, "stray-blank")),
    "agents under srun, by variable": (
        GPUS + "N=4\nsrun accelerate launch --num_processes $((SLURM_NNODES * N)) train.py",
        (5, "ranks-multiplied"),
    ),
    "processes that do not fit": (
        ONE_EACH + "srun accelerate launch --num_machines 2 --num_processes 4 train.py",
        (4, "rank-count"),
    ),
    "nodes that do not fit": (
        ONE_EACH + "srun torchrun --nnodes=4 --nproc_per_node=4 train.py",
        (4, "rank-count"),
    ),
    "more ranks than GPUs": (
        "#SBATCH --nodes=1\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:4\nsrun python train.py",
        (4, "rank-count"),
    ),
    "more ranks than tasks": (
        "#SBATCH --nodes=2\n#SBATCH --ntasks=4\nmpirun -np 8 python train.py",
        (3, "rank-count"),
    ),
    "an agent of uv": (
        "#SBATCH --nodes=2\nuv run torchrun --nnodes=2 --nproc_per_node=4 train.py",
        (2, "first-node-only"),
    ),
    "horovodrun in the container": (
        "#SBATCH --nodes=2\n#SBATCH --ntasks=2\napptainer exec i.sif horovodrun -np 2 python t.py",
        (3, "mpirun-in-container"),
    ),
    "nvidia-smi without --nv": (
        "#SBATCH --ntasks=1\nsrun apptainer exec i.sif bash -c 'nvidia-smi; python t.py'",
        (2, "host-command-in-container"),
    ),
    "an address by srun": (
        '#SBATCH --nodes=2\nip=$(srun -N1 -n1 -w "$n" hostname --ip-address)\n'
        "srun torchrun --nnodes=2 --rdzv_endpoint=$ip:$P train.py",
        (2, "hostname-address"),
    ),
    "GPUs of each task of a step": (
        "#SBATCH -N 1\nsrun -n 3 --gpus-per-task=1 python t.py",
        (2, "gpus-per-task"),
    ),
    "the address of each node": (
        "#SBATCH --nodes=2\nMASTER_ADDR=127.0.0.1 srun python t.py",
        (2, "hostname-address"),
    ),
    "an address in a variable": (
        "#SBATCH --nodes=2\nall=$(hostname -i)\nexport MASTER_ADDR=$(echo $all | sed 's/ .*//')\n"
        "srun python t.py",
        (2, "hostname-address"),
    ),
    "an agent that is profiled": (
        "#SBATCH --gres=gpu:2\nnsys profile torchrun --nproc_per_node=4 t.py",
        (2, "rank-count"),
    ),
    "a port of an option": (
        ONE_EACH + "srun torchrun --nnodes=2 --nproc_per_node=4 --master_port 29500 train.py",
        (4, "port-fixed"),
    ),
    "a list without ALL": (
        "#SBATCH --ntasks=2\nexport A=1\nsrun --export=B=2 python train.py",
        (3, "export-none"),
    ),
    "the number of a node in the script's shell": (
        ONE_EACH + "srun torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID t.py",
        (4, "no-rank-variables"),
    ),
    "a rank that the script's shell has": (
        GPUS + "srun python t.py --rank $SLURM_PROCID",
        (4, "no-rank-variables"),
    ),
    "scontrol in an image of pyxis": (
        "#SBATCH --nodes=2\nsrun --container-image=i.sqsh bash -c 'a=$(scontrol show hostnames); "
        "python t.py $a'",
        (2, "host-command-in-container"),
    ),
    "no blank before a line's end": (
        "srun python train.py --lr 0.1\\\n--epochs 3",
        (1, "stray-blank"),
    ),
    "a directive in other cases": ("#SBATCH -n 2\n#SBATCh -t 1\na", (2, "misspelt-directive")),
    "a directive with an underscore": (
        "#SBATCH -n 2\n#SBATCH --cpus_per_task=4\na",
        (2, "misspelt-directive"),
    ),
    "a directive with a letter less": ("#BATCH -n 2\nsrun a", (1, "misspelt-directive")),
    "a token for a login": (
        "huggingface-cli login --token hf_0123456789abcdef\nsrun python t.py --x_token=0123456789a",
        (1, "secret-in-script"),
    ),
    "a directive with a letter twice": ("#SBATCH -n 2\n#SBATCsH -t 1", (2, "misspelt-directive")),
    "a line that is not continued": ("srun python t.py --a\n  --b=$B --c", (2, "stray-blank")),
    "a launcher that is not continued": ("srun -n 2\npython t.py", (1, "stray-blank")),
    "a rank for the text of each task": (
        GPUS + "export RANK=$SLURM_PROCID\nsrun bash -c 'python t.py'",
        (4, "no-rank-variables"),
    ),
    "grep hides, too": ("srun python train.py | grep loss", (1, "pipe-exit-code")),
    "a key as an argument": (
        "srun python train.py --wandb-api-key 0123456789abcdef0123456789",
        (1, "secret-in-script"),
    ),
    "a key for wandb": (
        "wandb login 0123456789abcdef0123456789\nsrun python train.py",
        (1, "secret-in-script"),
    ),
}


@pytest.mark.parametrize(("text", "finding"), WRONG.values(), ids=WRONG)
def test_other_forms_of_a_mistake(text: str, finding: tuple[int, str]) -> None:
    assert finding in found(text)


def test_a_secret_of_a_login_is_not_repeated() -> None:
    report = read("wandb login 0123456789abcdef0123456789\nsrun python train.py")
    assert "0123456789" not in str(report.notes)


def test_a_secret_is_not_repeated() -> None:
    report = read("export HF_TOKEN=hf_0123456789abcdef\nsrun python train.py")
    assert [finding.id for finding in report.findings] == ["secret-in-script"]
    assert "0123456789" not in str(report)
    assert "--env HF_TOKEN " in report.drafts[0].text


@pytest.mark.parametrize(
    ("version", "finds"),
    [("", True), ("21.08.8", False), ("22.05.8", True), ("23.02.1", True), ("23.11.0", False)],
)
def test_srun_took_over_the_cpus_before_and_does_again(version: str, finds: bool) -> None:
    text = "#SBATCH --ntasks=4\n#SBATCH --cpus-per-task=8\nsrun python train.py"
    site = Site(slurm_version=version)
    assert codes(text, site) == ({"srun-cpus-per-task"} if finds else set())


def test_the_limit_of_the_sites_profile() -> None:
    site = Site(profile=Profile("alvis", rules=Rules(max_time={"*": "7-00:00:00"})))
    text = "#SBATCH --time={}\nsrun python train.py"
    assert codes(text.format("8-0"), site) == {"time-limit"}
    assert codes(text.format("7-0"), site) == set()
