"""Where a task is in the job, from the environments that launchers really make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract import node_lists
from runners.injob import task

from .. import sentences
from .srun_environment import SRUN

# As Slurm 24.11 made it: salloc -N4 --ntasks-per-node=3; srun -N2 --relative=2 -n4 -m plane=2
STEP_ON_A_PART = {
    "SLURMD_NODENAME": "n4",
    "SLURM_DISTRIBUTION": "plane",
    "SLURM_DIST_PLANESIZE": "2",
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[3-4]",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_TASKS_PER_NODE": "3(x4)",
}
# As Open MPI 5.0.7 made it: mpirun -np 3 --host n2:1,n3:2, on n3
MPIRUN = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "3",
    "PMIX_NAMESPACE": "prterun-login-411@1",
    "SLURM_JOB_NODELIST": "n[2-3]",
}
# As Hydra 4.0.2 made it: mpiexec.hydra -n 3
HYDRA = {"MPI_LOCALNRANKS": "3", "MPI_LOCALRANKID": "1", "PMI_RANK": "1", "PMI_SIZE": "3"}
# The names that jobs on ALCF's Polaris and Aurora read
PALS = {
    "PALS_APID": "4f1c",
    "PALS_RANKID": "5",
    "PALS_LOCAL_RANKID": "1",
    "PALS_LOCAL_SIZE": "4",
    "PMI_RANK": "5",
    "PMI_SIZE": "8",
}
HOROVODRUN = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "0",
    "HOROVOD_CROSS_SIZE": "1",
}


@pytest.mark.parametrize(
    ("text", "counts"),
    [("2", (2,)), ("2(x3),1", (2, 2, 2, 1)), ("3,1", (3, 1)), ("1,2(x2)", (1, 2, 2))],
)
def test_tasks_per_node(text: str, counts: tuple[int, ...]) -> None:
    assert node_lists.expand_counts(text) == counts


def test_tasks_per_node_in_another_form_is_an_error() -> None:
    with sentences.refuses(task.TaskError):
        task.read("srun", {**SRUN, "SLURM_TASKS_PER_NODE": "2x3"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[03-05,7],m1", "n03 n04 n05 n7 m1"),
        ("n[1,3,5-6]", "n1 n3 n5 n6"),
        ("rack[1-2]node[4-5]x", "rack1node4x rack1node5x rack2node4x rack2node5x"),
        ("a-1,b-2", "a-1 b-2"),
        ("nid[000998-001001]", "nid000998 nid000999 nid001000 nid001001"),
    ],
)
def test_node_lists(text: str, names: str) -> None:
    assert node_lists.expand_nodes(text) == tuple(names.split())


@pytest.mark.parametrize("text", ["", "n[1-x]", "n[]"])
def test_what_is_no_node_list(text: str) -> None:
    with sentences.refuses(ValueError):
        node_lists.expand_nodes(text)


@pytest.mark.parametrize(
    ("counts", "distribution", "plane", "by_rank"),
    [
        ((3, 1), "block", 1, (0, 0, 0, 1)),
        ((3, 1), "cyclic", 1, (0, 1, 0, 0)),
        ((3, 1, 2), "cyclic:block,NoPack", 1, (0, 1, 2, 0, 2, 0)),
        ((4, 3), "plane", 2, (0, 0, 1, 1, 0, 0, 1)),
        ((2, 2), "arbitrary", 1, ()),
    ],
)
def test_which_node_runs_which_rank(
    counts: tuple[int, ...], distribution: str, plane: int, by_rank: tuple[int, ...]
) -> None:
    assert task.ranks_by_node(counts, distribution, plane) == by_rank


def test_place_with_uneven_tasks() -> None:
    me = task.read("srun", SRUN)
    assert (me.rank, me.size, me.local_rank, me.local_size) == (3, 4, 0, 1)
    assert (me.cross_rank, me.cross_size) == (1, 2)  # both nodes have a local rank 0
    assert (me.name, me.first_host) == ("3@n2", "n1")
    assert me.hosts == ("n1", "n1", "n1", "n2")


def test_place_of_a_local_rank_that_one_node_lacks() -> None:
    env = {**SRUN, "SLURM_PROCID": "2", "SLURM_LOCALID": "2", "SLURM_NODEID": "0"}
    me = task.read("srun", env)
    assert (me.cross_rank, me.cross_size) == (0, 1)


def test_a_step_on_a_part_of_the_allocation() -> None:
    me = task.read("srun", STEP_ON_A_PART)
    assert (me.rank, me.size, me.local_rank, me.local_size) == (3, 4, 1, 2)
    assert (me.cross_rank, me.cross_size, me.first_host) == (1, 2, "n3")
    assert me.hosts == ("n3", "n3", "n4", "n4")


def test_a_distribution_that_is_not_as_computed_gives_no_hosts() -> None:
    me = task.read("srun", {**SRUN, "SLURM_DISTRIBUTION": "cyclic"})  # rank 3 would be on n1
    assert (me.hosts, me.first_host) == ((), "n1")


@pytest.mark.parametrize("counts", [(3, 1, 2), (1,), (2, 2)])
def test_ranks_form_one_grid(counts: tuple[int, ...]) -> None:
    """Every (cross, local) pair appears once, for any distribution of tasks over nodes."""
    seen = set()
    texts = ",".join(map(str, counts))
    for node, count in enumerate(counts):
        for local in range(count):
            env = {**SRUN, "SLURM_PROCID": "0", "SLURM_TASKS_PER_NODE": texts}
            env["SLURM_JOB_NODELIST"] = f"n[1-{len(counts)}]"
            me = task.read("srun", {**env, "SLURM_NODEID": str(node), "SLURM_LOCALID": str(local)})
            seen.add((me.cross_rank, local))
            assert me.cross_rank < me.cross_size
    assert len(seen) == sum(counts)


def test_mpirun_knows_nothing_of_the_other_nodes() -> None:
    me = task.read("mpirun", MPIRUN)
    assert (me.rank, me.size, me.local_rank, me.local_size) == (2, 3, 1, 2)
    assert (me.first_host, me.job) == ("n2", "prterun-login-411@1")
    # Open MPI's mpirun has that name too.
    assert task.read("mpiexec", MPIRUN) == replace(me, launcher="mpiexec")


def test_mpirun_outside_of_an_allocation_does_not_guess_where_rank_0_is() -> None:
    env = {key: value for key, value in MPIRUN.items() if key != "SLURM_JOB_NODELIST"}
    assert task.read("mpirun", env).first_host == ""
    first = task.read("mpirun", {**env, "OMPI_COMM_WORLD_RANK": "0"})
    assert first.first_host == first.host


def test_hydra() -> None:
    me = task.read("mpiexec", HYDRA)
    assert (me.rank, me.size, me.local_rank, me.local_size, me.one_host) == (1, 3, 1, 3, True)


def test_pals(tmp_path: Path) -> None:
    hosts = tmp_path / "nodefile"
    hosts.write_text("x3001c0s1b0n0.hsn\nx3001c0s7b0n0.hsn\n")
    me = task.read("mpiexec", {**PALS, "PBS_NODEFILE": str(hosts)})
    assert (me.rank, me.size, me.local_rank, me.local_size) == (5, 8, 1, 4)
    assert (me.cross_rank, me.cross_size, me.job) == (1, 2, "4f1c")
    assert me.first_host == "x3001c0s1b0n0.hsn"


def test_a_node_file_that_the_container_does_not_show() -> None:
    assert task.read("mpiexec", {**PALS, "PBS_NODEFILE": "/var/spool/none"}).first_host == ""


def test_horovodrun_with_each_controller() -> None:
    me = task.read("horovodrun", HOROVODRUN)
    assert (me.rank, me.size, me.local_rank, me.cross_size) == (1, 2, 1, 1)
    by_mpi = replace(task.read("mpirun", MPIRUN), launcher="horovodrun")
    assert task.read("horovodrun", MPIRUN) == by_mpi


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "mpiexec", "horovodrun"])
def test_without_a_launcher_the_missing_variable_is_named(launcher: str) -> None:
    with sentences.refuses(task.TaskError):
        task.read(launcher, {})
