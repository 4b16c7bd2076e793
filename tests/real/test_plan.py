"""`runner plan`, and launches that follow it: counted GPUs, commands that hang, remedies."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from .conftest import IMAGE, Done, Login, ended, succeeded
from .places import BARE

# A GPU's stand-in: torch is told that there are as many as the driver would list.
TAKES_A_GPU = """\
import os
import horovod.torch as hvd
import torch
from recipes import distributed, run_torch, torch_mnist

visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
chosen = []
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: len(visible)
torch.cuda.set_device = chosen.append
torch.cuda.current_device = lambda: chosen[-1]
torch.cuda.get_device_capability = lambda: (9, 0)
torch.cuda.get_device_name = lambda: "a stand-in"
torch.cuda.get_arch_list = lambda: ["sm_90"]
world = distributed.horovod(hvd)
run_torch.pick_device(torch_mnist.parser().parse_args(['--device', 'gpu']), world)
print(f"RANK {hvd.rank()} of {hvd.size()} LOCAL {hvd.local_rank()} GPU {visible[chosen[-1]]}")
"""
RANK = re.compile(r"RANK (\d) of (\d) LOCAL (\d) GPU (\d)")


def planned(login: Login, *words: str) -> dict[str, Any]:
    done = login.runner("plan", "--json", "--image", IMAGE, *words)
    assert done.returncode in (0, 80), done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    assert value["works"] is (done.returncode == 0)
    return value


def choices(plan: dict[str, Any]) -> dict[str, Any]:
    return {choice["id"]: choice["value"] for choice in plan["choices"]}


@pytest.mark.unpacked
def test_tasks_follow_the_gpus_and_ranks_take_them_in_turn(login: Login) -> None:
    """However they are asked for, which only the plan needs to see: the jobs are the same."""
    trainer = login.write("gpu.py", TAKES_A_GPU)
    words = ("-p", "gpu", "-N", "2", "--no-nv", trainer)
    ways = (("--gres", "gpu:A100:2"), ("--gpus-per-node", "A100:2"), ("--gpus", "4"))
    for way in ways:
        script = planned(login, *way, *words)["script"]
        assert {"#SBATCH --ntasks-per-node=2", "#SBATCH --nodes=2"} <= set(script.splitlines()), way
    done = succeeded(login.launch("--gpus", "4", "--follow", "--all", *words))
    ranks = sorted(RANK.findall(done.stdout))
    assert [(rank, size, local) for rank, size, local, _ in ranks] == [
        ("0", "4", "0"),
        ("1", "4", "1"),
        ("2", "4", "0"),
        ("3", "4", "1"),
    ]
    assert ranks[0][3] != ranks[1][3], "two ranks of a node on one GPU"


@pytest.mark.unpacked
def test_one_visible_gpu_for_each_rank(login: Login) -> None:
    trainer = login.write("gpu.py", TAKES_A_GPU)
    words = ("-p", "gpu", "--ntasks-per-node", "2", "--gpus-per-task", "1", "--no-nv")
    done = succeeded(login.launch(*words, "--follow", "--all", trainer))
    ranks = sorted(RANK.findall(done.stdout))
    assert [rank[0] for rank in ranks] == ["0", "1"]
    assert ranks[0][3] != ranks[1][3], "two ranks on one GPU"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--gpus-per-node", "V100:1"), 80, "partition cpu has no GPUs of type V100"),
        (("--scheduler", "allocation"), 80, "not within a job"),
        (("--launcher", "mpiexec"), 80, "does not work with --scheduler slurm"),
        (("--site", "neurone"), 2, "neuron"),
        (("--site", "perlmutter"), 2, "is not of perlmutter: its jobs are shown here"),
    ],
)
def test_contradictions_are_refused(
    login: Login, words: tuple[str, ...], code: int, message: str
) -> None:
    done = ended(login.launch(*words, "torch_mnist"), code, message)
    assert "Traceback" not in done.stderr
    assert login.runs() == []


TRY = re.compile(r"^  try: (runner .*)$", re.MULTILINE)
SUGGESTED = {  # what is typed, and what one of the suggestions has
    "-p gpu --gpus-per-node V100:2 --nv torch_mnist": "--gpus-per-node A100:4",
    "-p gpu --gpus 9 --nv torch_mnist": "--gpus-per-node A100:4",
    "-p gpu --gpus-per-node 2 torch_mnist": "runner build gpu && runner launch --image horovod_gpu",
    "--ntasks-per-node 20 torch_mnist": "--ntasks-per-node 8",
    "--cpus-per-task 64 torch_mnist": "--cpus-per-task 8",
    "--nodes 3 --cpus-per-task 64 torch_mnist": "--nodes 2",
    "--nproc-per-node 20 torch_mnist": "--overcommit",
    "--launcher torchrun torch_mnist": "torch_mnist -- --exchange ddp",
    "--launcher torchrun torch_lm -- --epochs 3": "-- --epochs 3 --exchange ddp",
    "--launcher horovodrun --requeue torch_mnist": "",
    "--partition gpus torch_mnist": "--partition gpu",
    "--ntasks-per-node 2 --nproc-per-node 4 torch_mnist": "--ntasks-per-node 4",
}


@pytest.mark.parametrize("words", SUGGESTED)
def test_each_suggested_command_works(login: Login, words: str) -> None:
    done = login.launch("--dry-run", *shlex.split(words), env={"RUNNER_CPUS_PER_TASK": "1"})
    assert done.returncode in (2, 80), done.stdout + done.stderr
    offers = TRY.findall(done.stderr)
    assert any(SUGGESTED[words] in offer for offer in offers), done.stderr
    assert len(set(offers)) == len(offers) <= 5, done.stderr
    for offer in offers:
        if "&&" in offer:  # after a build
            continue
        assert "# refused too" not in offer
        succeeded(login.run(*shlex.split(offer)))


def test_where_no_change_works_that_is_said(login: Login) -> None:
    done = login.launch("--dry-run", "--nodes", "2", "mpirun", "gone.py")
    ended(done, 2, "  # refused too: the trainer gone.py does not exist")


def test_a_folder_is_no_trainer(login: Login) -> None:
    login.sh("mkdir code; touch code/train.py")
    done = ended(login.launch("code", "--", "--lr", "1"), 2, "the trainer code is a folder")
    assert re.search(r"try: runner launch --image \S+ code/train.py -- --lr 1\n", done.stderr)
    assert login.runs() == []


@pytest.mark.unpacked
def test_a_remedy_is_a_command_that_works(login: Login) -> None:
    trainer = login.write("t.py", f"{BARE}hvd.init(); print(hvd.size())")
    words = ("-N", "2", "--controller", "mpi", "--mpi", "pmi2", "--wait", trainer)
    done = ended(login.launch(*words), 80, "every rank would be alone (world size 1)")
    remedy = re.findall(r"try: (runner launch .*)", done.stderr)[0]
    succeeded(login.run(*shlex.split(remedy)))


def test_by_force_the_gate_still_watches(login: Login) -> None:
    """Debian's Open MPI ends within MPI_Init; either way no rank may believe to be alone."""
    trainer = login.write("t.py", f"{BARE}hvd.init(); print('ALONE')")
    words = ("-N", "2", "--controller", "mpi", "--mpi", "pmi2", "--force", "--follow", "--all")
    done = ended(login.launch(*words, trainer), 82, "submitted by force")
    assert "| ALONE" not in done.stdout


def with_stand_in(login: Login, name: str, script: str) -> Done:
    """Plan with another program in the place of one of Slurm's."""
    login.write(f"bin/{name}", f"#!/bin/sh\n{script}")
    login.sh(f"chmod +x bin/{name}")
    path = f"PATH={login.folder}/bin:$PATH"
    return login.run("bash", "-c", f"{path} runner plan --image {IMAGE} -N 2 torch_mnist")


def test_a_site_command_that_hangs_is_left_out(login: Login) -> None:
    login.sh("mkdir bin")
    done = succeeded(with_stand_in(login, "sinfo", "sleep 60"))
    assert "warning: sinfo: no answer within 10 s" in done.stdout


def test_output_that_is_not_understood_is_shown(login: Login) -> None:
    login.sh("mkdir bin")
    done = succeeded(with_stand_in(login, "sinfo", "echo the queue is closed today"))
    assert "sinfo printed what runner does not read: the queue is closed today" in done.stdout


def test_every_choice_has_a_reason(login: Login) -> None:
    plan = planned(login, "-N", "2", "torch_mnist")
    assert all(choice["reason"] for choice in plan["choices"])
    assert (choices(plan)["controller"], choices(plan)["mpi"]) == ("mpi", "pmix")
    assert "srun --mpi=pmix" in plan["script"]
    refused = planned(login, "-N", "2", "--controller", "mpi", "--mpi", "none", "torch_mnist")
    assert refused["diagnoses"][0]["remedies"][0]["options"] == [["mpi", "pmix"]]
