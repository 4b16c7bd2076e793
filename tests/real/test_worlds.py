"""Whoever forms the world: it is one of all ranks over two nodes, or the job ends with 82."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .conftest import Login, ended, succeeded
from .places import BARE

pytestmark = pytest.mark.unpacked

SCRIPTS = Path(__file__).parent / "worlds"


class World(NamedTuple):
    """What forms a world: a script with its arguments, the launch's options, the gate's words."""

    script: str
    says: str
    options: tuple[str, ...] = ()
    size: int = 2


TORCH = "torch.distributed, gloo"
FOLLOWED = ("--nodes", "2", "--follow", "--all")
OF_SLURM = ("--controller", "none")
WORLDS = {
    "DDP": World("plain_ddp.py", TORCH),
    "DDP, Gloo's controller": World("plain_ddp.py", TORCH, ("--controller", "gloo")),
    "DDP, ranks that share a CPU": World(
        "plain_ddp.py", TORCH, ("--ntasks-per-node", "2", "--overcommit"), size=4
    ),
    "FSDP": World("fsdp.py", TORCH, OF_SLURM),
    "Hugging Face Trainer": World("hf_trainer.py", TORCH),
    "Lightning, its own Slurm detection": World("lightning_ddp.py", TORCH),
    "Lightning, our variables": World("lightning_ddp.py --ours", TORCH),
    "accelerate without launcher": World("accelerate_alone.py", TORCH),
    "MultiWorkerMirrored, TF_CONFIG": World("mirrored.py", "tf.distribute", ("--tf-config",)),
    "MultiWorkerMirrored, SlurmClusterResolver": World("mirrored.py --slurm", "tf.distribute"),
    "mpi4py": World("mpi.py", "mpi4py", OF_SLURM),
    "torchrun": World("plain_ddp.py", TORCH, ("--launcher", "torchrun")),
    "torchrun, two ranks on a node": World(
        "plain_ddp.py", TORCH, ("--launcher", "torchrun", "--ntasks-per-node", "2"), size=4
    ),
    "accelerate": World("plain_ddp.py", TORCH, ("--launcher", "accelerate")),
}


# One of each framework and launcher. The others come to the same gate in another way; two ranks of
# torchrun's on a node are also in frameworks.md and test_explain_frameworks.py, DDP behind a shell
# and by python -m in frameworks.md alone.
OFTEN = (
    *("DDP", "FSDP", "Hugging Face Trainer", "Lightning, its own Slurm detection"),
    *("MultiWorkerMirrored, TF_CONFIG", "mpi4py", "torchrun", "accelerate"),
)


def marked(names: Iterable[str], *often: str) -> list[Any]:
    """Return the names as parameters, of which those that are not in `often` are slow tests."""
    slow = pytest.mark.slow
    return [name if name in often else pytest.param(name, marks=slow) for name in names]


@pytest.fixture
def place(login: Login) -> Login:
    """A folder with the scripts."""
    login.write_all(SCRIPTS.glob("*.py"))
    return login


def words(world: World, *before: str) -> list[str]:
    """Return the words of a launch."""
    first, *rest = (*before, *world.script.split())
    return [*FOLLOWED, *world.options, first, *(["--", *rest] if rest else [])]


@pytest.mark.parametrize("name", marked(WORLDS, *OFTEN))
def test_one_world_over_two_nodes(place: Login, name: str) -> None:
    world = WORLDS[name]
    done = succeeded(place.launch(*words(world)))
    assert f"runner: one world of {world.size} ranks ({world.says})" in done.stdout
    assert done.stdout.count(f"| ranks {world.size} sum {world.size}") == world.size
    assert len(set(re.findall(r"@(n\d) \| ranks", done.stdout))) == 2


LEFT_OUT = ("DDP", "MultiWorkerMirrored, TF_CONFIG", "mpi4py", "torchrun, two ranks on a node")


@pytest.mark.parametrize(
    "name", marked(LEFT_OUT, "DDP", "MultiWorkerMirrored, TF_CONFIG", "mpi4py")
)
def test_a_rank_that_is_left_out_ends_the_job_with_82(place: Login, name: str) -> None:
    """The others wait for it: within seconds the job has failed, and says which rank it was."""
    done = ended(place.launch(*words(WORLDS[name], "left_out.py")), 82)
    who = r"no process group on rank \d@n\d: the trainer ended and created no process group of the"
    assert re.search(who, done.stdout)
    assert (
        f"ran alone: no process group of the {WORLDS[name].size} ranks was created" in done.stderr
    )


@pytest.mark.parametrize("script", ["mirrored.py", "accelerate_alone.py"])
def test_two_silent_worlds_of_one_end_with_82(place: Login, script: str) -> None:
    """Each ended with 0 before: MultiWorkerMirrored without TF_CONFIG, accelerate without RANK."""
    hidden = 'env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u OMPI_COMM_WORLD_SIZE python "$0"'
    hide = ("bash", "--", "-c", hidden, script)
    ended(place.launch(*FOLLOWED, "--controller", "gloo", *hide), 82)


def test_a_torchrun_of_the_users_with_another_number_of_nodes_is_refused(place: Login) -> None:
    own = ("torchrun", "--", "--standalone", "--nproc-per-node", "2", "plain_ddp.py")
    done = ended(place.launch(*FOLLOWED, *own), 82)
    assert (
        "torchrun was given another number of nodes or processes than the job has: 1 x 2"
        in done.stdout
    )
    assert "--launcher torchrun" in done.stderr


# Two ranks in each task, each pair with a world of its own, or all ranks alone
INNER = f"""
import os, subprocess, sys
if sys.argv[1] in ("mpirun", "horovodrun"):
    own = ["--oversubscribe"] if sys.argv[1] == "mpirun" else ["-H", "localhost:2", "--gloo"]
    env = {{n: v for n, v in os.environ.items() if n[:5] not in ("SLURM", "PMIX_")}}
    sys.exit(subprocess.call([sys.argv[1], "-np", "2", *own, "python", __file__, "rank"], env=env))
{BARE}
hvd.init(comm=[int(os.environ["SLURM_PROCID"])] if sys.argv[1] == "part" else None)
print("world of", hvd.size(), flush=True)
hvd.shutdown()
"""
WITHIN = {
    "mp.spawn": (("spawned.py", "--", "2"), "tasks 0 and 1 both have a rank"),
    "mpirun": (("--controller", "mpi", "inner.py", "--", "mpirun"), "both have a rank"),
    "horovodrun": (("--controller", "none", "inner.py", "--", "horovodrun"), "both have a rank"),
    "hvd.init(comm=[rank])": (
        ("--controller", "mpi", "inner.py", "--", "part"),
        "hvd.init(comm=...) made a world of a part of the ranks",
    ),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_world_in_each_task_is_not_one_though_its_size_is_right(place: Login, name: str) -> None:
    """Each ended with 0 before, under the words "one world of 2 ranks"."""
    options, said = WITHIN[name]
    place.write("inner.py", INNER)
    done = ended(place.launch(*FOLLOWED, *options), 82)
    assert "one world of" not in done.stdout
    assert said in done.stdout
    assert said in done.stderr
    assert "--no-gate" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("--nodes 2 spawned.py -- 2 --all", 4),
        pytest.param("--nodes 1 spawned.py -- 4", 4, marks=pytest.mark.slow),
        ("--nodes 1 --controller mpi inner.py -- mpirun", 2),
        ("--nodes 1 --controller none inner.py -- horovodrun", 2),
        ("--nodes 1 torchrun -- --standalone --nproc-per-node=2 plain_ddp.py", 2),
    ],
)
def test_tasks_may_start_several_ranks_of_one_world(place: Login, words: str, size: int) -> None:
    place.write("inner.py", INNER)
    done = succeeded(place.launch("--follow", "--all", *words.split()))
    assert done.stdout.count(f"runner: one world of {size} ranks") == 1
    said = re.findall(rf"ranks {size} sum {size}$|\bworld of {size}$", done.stdout, re.MULTILINE)
    assert len(said) == size


@pytest.mark.parametrize(
    ("script", "fix"),
    [
        ("lightning_auto.py", 'Trainer(num_nodes=NODES, strategy="ddp")'),
        (
            "one_node.py",
            "tf.distribute.MultiWorkerMirroredStrategy(), and runner launch --tf-config",
        ),
    ],
)
def test_strategies_of_one_node_are_told_what_is_one_of_several(
    place: Login, script: str, fix: str
) -> None:
    """Not to switch the check off, with which two trainings would end green."""
    done = ended(place.launch(*FOLLOWED, script), 82, fix)
    assert "--no-gate" not in done.stdout + done.stderr


def test_tensorflows_ranks_end_together(place: Login) -> None:
    """A rank that leaves sooner cuts the others off from the last collective, now and then."""
    done = succeeded(place.launch(*FOLLOWED, "--tf-config", "uneven_end.py"))
    times = dict(re.findall(r"(process 0|script 1) \w+ at ([\d.]+)", done.stdout))
    assert float(times["process 0"]) > float(times["script 1"])


MEET = """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""


def test_several_jobs_on_one_node_do_not_collide(place: Login) -> None:
    """Two at a time on the same nodes, each with ports and a world of its own."""
    place.write("meet.py", MEET)
    succeeded(place.launch("--nodes", "2", "meet.py"))
    succeeded(place.launch("--nodes", "2", "--wait", "meet.py"))
    deadline = time.monotonic() + 120
    while place.runner("wait", "meet-1").returncode != 0:
        assert time.monotonic() < deadline
    logs = place.sh("cat runs/meet-*/logs/job.log")
    assert logs.count("one world of 2 ranks") == 2


def test_a_master_port_of_the_users_that_is_taken_is_explained(place: Login) -> None:
    taken = 'python -m http.server 23456 >/dev/null & sleep 1; exec python "$0"'
    own = ("--env", "MASTER_ADDR=n1", "--env", "MASTER_PORT=23456")
    done = place.launch(*FOLLOWED, *own, "bash", "--", "-c", taken, "plain_ddp.py")
    assert done.returncode not in (0, 82), done.stderr
    assert "23456" in done.stderr
