"""Jobs that hang, and one that only says nothing: what `--follow` and `explain` tell of them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ras_server

from .conftest import Login, succeeded

pytestmark = pytest.mark.unpacked

AFTER = 5  # seconds
HANG = """
def hang():
    if kind == "sleep":
        time.sleep(600)
    while kind == "loop":
        pass
"""
HOROVOD = f"""
import sys, time
import torch
import horovod.torch as hvd
kind = sys.argv[1]
{HANG}
hvd.init()
for step in range(3):
    hvd.allreduce(torch.ones(4), name="loss")
print("begins", hvd.rank(), flush=True)
if hvd.rank() == 1:
    hang()
hvd.allreduce(torch.ones(4), name="loss")
"""
DDP = f"""
import sys, time
import torch
import torch.distributed as dist
kind = sys.argv[1]
{HANG}
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("begins", dist.get_rank(), flush=True)
step = 0
while True:
    step += 1
    if step == 5 and dist.get_rank() == 1:
        hang()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.1)
"""
RAS = """\
import os
if os.environ["RANK"] == "0":
    import ras_server
    ras_server.serve()
"""
# options, trainer, what rank 1 does, and in which line rank 0 waits
REDUCES = 'hvd.allreduce(torch.ones(4), name="loss"), in synchronize (mpi_ops.py line '
BACKWARD = ".backward(), in _engine_run_backward"
JOBS = {
    "gloo-sleep": (["--controller", "gloo"], HOROVOD, "sleep", REDUCES),
    "gloo-loop": (["--controller", "gloo"], HOROVOD, "loop", REDUCES),
    "mpi-sleep": (["--controller", "mpi"], HOROVOD, "sleep", REDUCES),
    "ddp-sleep": ([], RAS + DDP, "sleep", f"{BACKWARD} (graph.py line "),
    "ddp-loop": (["--launcher", "torchrun"], DDP, "loop", BACKWARD),
}
# Horovod's ranks wait in the same line of Python whatever its controller and what keeps rank 1.
OFTEN = ("gloo-sleep", "ddp-sleep", "ddp-loop")


@pytest.fixture
def running(login: Login) -> Iterator[list[str]]:
    """The numbers of jobs that are ended with the test."""
    ids: list[str] = []
    yield ids
    for id in ids:
        login.runner("cancel", id)


def launch(
    login: Login, name: str, running: list[str], trainer: str, kind: str, *options: str
) -> str:
    """Start a job of that name; return its number once both ranks have begun."""
    file = login.write(f"{name}.py", trainer)
    done = succeeded(login.launch("-N", "2", "--parsable", *options, file, kind))
    running.append(done.stdout.strip())
    log = f"runs/{name}-1/logs/job.log"
    login.sh(f"until [ $(grep -cs 'begins [01]' {log}) = 2 ]; do sleep 0.2; done")
    return running[-1]


def explained(login: Login, id: str, tries: int) -> dict[str, Any]:
    """What `explain` says, asked again while it knows of nothing: a job may not hang yet."""
    env = {"RUNNER_STALL_AFTER": str(AFTER)}
    for _ in range(tries):
        answer: dict[str, Any] = login.why(id, env=env)
        if answer["id"] != "running":
            break
    return answer


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in JOBS],
)
def test_who_hangs_and_where_the_others_wait(login: Login, name: str, running: list[str]) -> None:
    """Of ddp-sleep rank 0 itself answers at NCCL_RAS_ADDR, a stand-in: without a GPU, no NCCL.

    Real are the variable in the container, the question on that node, the file and the words.
    """
    options, trainer, kind, waits = JOBS[name]
    login.write_all([Path(ras_server.__file__)])
    answer = explained(login, launch(login, name, running, trainer, kind, *options), 4)
    assert answer["id"] == "stall", answer
    assert answer["what"].endswith(": rank 1@n2 did not come to where the others wait")
    _, late, waiting, *ras = answer["evidence"]
    within = [
        number
        for number, line in enumerate(trainer.splitlines(), 1)
        if line.strip() in ENDLESS[kind]
    ]
    lines = "|".join(map(str, within))
    assert re.match(rf">  1 +n2 +(sleeps|runs) +{name}\.py +({lines}) +\S", late), late
    assert re.match(rf"   0 +n1 +waits +{name}\.py +\d+ +\S", waiting), waiting
    assert waits in waiting
    stacks = login.sh(f"cat runs/{name}-1/stacks/rank-*.txt")
    assert f'{name}.py", line {within[0]}, in hang' in stacks or kind == "loop"
    assert "in hang" in stacks
    answers, kept = trainer.startswith(RAS), f"runs/{name}-1/stacks/nccl-ras.txt"
    assert ("NCCL's RAS: Rank 1 has launched up to operation 41" in ras) == answers
    assert (kept in str(answer["remedies"])) == answers
    if answers:
        assert ras_server.BEHIND in login.sh(f"cat {kept}")
    succeeded(login.runner("cancel", running[-1]))
    ended = login.why(running[-1])
    assert "; before that no new line for " in ended["what"], ended
    assert "rank 1@n2 did not come to where the others wait" in ended["what"]
    assert ended["evidence"][-len(answer["evidence"]) :] == answer["evidence"]


ENDLESS = {"sleep": ["time.sleep(600)"], "loop": ['while kind == "loop":', "pass"]}


def test_follow_tells_it_and_a_quiet_training_is_left_alone(
    login: Login, running: list[str]
) -> None:
    """Of a job whose optimizers step, in the same lines and without a word, nothing is told."""
    file = login.write("train.py", DDP)
    command = ["runner", "launch", "--image", login.image, "-N", "2", "--stall-after", str(AFTER)]
    words = shlex.join([*command, "--follow", file, "sleep"])
    login.sh(f"nohup {words} > follow.out 2>&1 &")
    login.sh("for i in $(seq 600); do grep -q 'no new line' follow.out && exit; sleep 0.2; done; "
             "cat follow.out; exit 1")  # fmt: skip
    text = login.sh("cat follow.out")
    assert re.search(
        r"^runner:   >  1 +n2 +sleeps +train\.py +\d+ +time\.sleep\(600\)$", text, re.MULTILINE
    )
    running += [json.loads(login.sh("cat runs/train-1/job.json"))["id"]]
    assert "asks its ranks" in login.runner(
        "status", running[0], env={"RUNNER_STALL_AFTER": str(AFTER)}
    ).stdout  # fmt: skip
    id = launch(login, "ddp-sleep", running, DDP, "no")
    assert explained(login, id, 2)["id"] == "running"
