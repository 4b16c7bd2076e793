"""`runner explain` of scripts with torch.distributed, TensorFlow and Keras that really fail."""

from __future__ import annotations

import json

import pytest

from .conftest import Login

pytestmark = pytest.mark.unpacked

WORLD = """\
import os, datetime, torch, torch.distributed as dist
rank, size = os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]
os.environ.update(RANK=rank, WORLD_SIZE=size)
soon = datetime.timedelta(seconds=15)
"""
THERE = WORLD + "dist.init_process_group('gloo', timeout=soon)\n"
# Name of the explanation -> options, trainer, what is in the cause and in the fix
FAILING = {
    "torch-variable-missing": (
        (),
        "import os, torch.distributed as dist\nos.environ.pop('RANK', '')\n"
        "dist.init_process_group('gloo')\n",
        "found no RANK",
        "+3 ",
    ),
    "wrong-master-address": (
        ("--env", "MASTER_ADDR=nowhere.example", "--env", "MASTER_PORT=29512"),
        WORLD + "dist.init_process_group('gloo', timeout=soon / 3)\n",
        "could not connect to rank 0 at MASTER_ADDR nowhere.example, MASTER_PORT 29512",
        "runner launch ",
    ),
    "port-taken": (
        ("--env", "MASTER_ADDR=n1", "--env", "MASTER_PORT=29513"),
        "import socket\nholds = socket.create_server(('', 29513))\n" + THERE,
        "port 29513, MASTER_PORT, is already in use",
        "runner launch ",
    ),
    "models-differ": (
        ("--env", "MASTER_ADDR=n1", "--env", "MASTER_PORT=29514"),
        THERE + "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3 + int(rank), 2))\n",
        "sizes of the same param",
        "+6 ",
    ),
    "nccl-without-gpu": (
        ("--env", "MASTER_ADDR=n1", "--env", "MASTER_PORT=29515"),
        WORLD + "dist.init_process_group('nccl', timeout=soon)\n",
        "is for GPUs (NCCL)",
        "+5 ",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_frameworks_failure_is_explained(login: Login, name: str) -> None:
    options, trainer, cause, fix = FAILING[name]
    login.write(f"{name}.py", trainer)
    done = login.launch("-N", "2", "--wait", *options, f"{name}.py")
    assert done.returncode, done.stdout + done.stderr
    said = login.why()
    assert said["id"] == name, json.dumps(said, indent=2)
    assert cause in said["what"], said
    assert fix in said["remedies"][0]["text"], said
    if name in ("wrong-master-address", "port-taken"):
        assert "MASTER_" not in said["remedies"][0]["text"], said


DYING = """\
import os, signal, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = tf.function(lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), None))
if os.environ["RANK"] == "{rank}":
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGKILL)).start()
while True:
    total()
"""


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_worker_of_tensorflows_that_dies_is_the_first_to_fail(login: Login, rank: int) -> None:
    login.write("dying.py", DYING.format(rank=rank))
    done = login.launch("-N", "2", "--controller", "none", "--tf-config", "--wait", "dying.py")
    assert done.returncode, done.stdout + done.stderr
    said = login.why()
    assert (said["id"], said["rank"]) == ("rank-killed", rank), json.dumps(said, indent=2)


WORKER = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(2)
dist.all_reduce(total)
if dist.get_rank() == 1:
    raise ValueError("boom")
dist.all_reduce(total)
"""


def test_below_torchrun_the_worker_that_failed_is_named(login: Login) -> None:
    """Its neighbour on the node fails too, by the broken connection, and writes last."""
    login.write("worker.py", WORKER)
    options = ("-N", "2", "--ntasks-per-node", "2", "--launcher", "torchrun")
    done = login.launch(*options, "--wait", "worker.py")
    assert done.returncode, done.stdout + done.stderr
    said = login.why()
    shown = json.dumps(said, indent=2)
    assert (said["id"], said["rank"], said["certainty"]) == ("rank-exception", 1, "certain"), shown
    assert "ValueError: boom" in said["what"], shown
    assert "+6 " in said["remedies"][0]["text"], shown
    assert "worker.py" in said["remedies"][0]["text"], shown
