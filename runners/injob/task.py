"""The task's place in the job, read from the environment that the launcher made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..contract.node_lists import expand_counts, expand_nodes

# The steps of a job that was requeued count from 0 again.
STEP = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
NUMBERS = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")  # as Open MPI and Horovod call them


class TaskError(Exception):
    """The environment does not say which task this is."""


@dataclass(frozen=True)
class Task:
    """One task of the job.

    `rank` and `size` are global (0-based, count), `local_*` count tasks of this node, `cross_*`
    count the nodes that have a task with this local rank. `first_host` runs rank 0, empty when the
    launcher does not tell; `job` names the job step, alike on all its tasks. `hosts` is the node
    of each rank as far as the launcher's rules tell, else empty; `node` counts the nodes.
    `launcher` is a key of READERS.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str
    first_host: str
    job: str
    hosts: tuple[str, ...] = ()
    launcher: str = "srun"
    node: int = 0

    @property
    def name(self) -> str:
        """`rank@host`, as it stands in logs and messages."""
        return f"{self.rank}@{self.host}"

    @property
    def one_host(self) -> bool:
        """Whether all tasks are on this host."""
        return self.local_size == self.size


def read(launcher: str, env: Mapping[str, str]) -> Task:
    """Return this process's task as `launcher`, a key of READERS, describes it.

    Raises TaskError when a variable that the launcher always sets is absent or not understood.
    """
    try:
        return replace(READERS[launcher](env), launcher=launcher)
    except KeyError as missing:
        raise TaskError(
            f"{missing.args[0]} is not in the environment: {launcher} did not start this process"
        ) from missing
    except ValueError as error:
        raise TaskError(f"what {launcher} set is not understood: {error}") from error


def from_srun(env: Mapping[str, str]) -> Task:
    """Read Slurm's step variables (srun(1), OUTPUT ENVIRONMENT VARIABLES).

    Those of the step come first: it may run on a part of the allocation.
    """
    counts = expand_counts(env.get("SLURM_STEP_TASKS_PER_NODE") or env["SLURM_TASKS_PER_NODE"])
    nodes = expand_nodes(env.get("SLURM_STEP_NODELIST") or env["SLURM_JOB_NODELIST"])
    rank, node, local_rank = (int(env[f"SLURM_{name}"]) for name in ("PROCID", "NODEID", "LOCALID"))
    hosts: tuple[str, ...] = ()  # where Slurm does not tell, or in a way that we do not know
    if len(nodes) == len(counts):
        plane = int(env.get("SLURM_DIST_PLANESIZE", "1"))
        order = ranks_by_node(counts, env.get("SLURM_DISTRIBUTION", "block"), plane)
        if order and order[rank] == node:
            hosts = tuple(nodes[index] for index in order)
    return Task(
        rank=rank,
        size=int(env.get("SLURM_STEP_NUM_TASKS") or env["SLURM_NTASKS"]),
        local_rank=local_rank,
        local_size=counts[node],
        cross_rank=sum(count > local_rank for count in counts[:node]),
        cross_size=sum(count > local_rank for count in counts),
        host=env.get("SLURMD_NODENAME") or os.uname().nodename,
        first_host=hosts[0] if hosts else nodes[0],
        job=".".join(env.get(name, "0") for name in STEP),
        hosts=hosts,
        node=node,
    )


def from_mpirun(env: Mapping[str, str]) -> Task:
    """Read what Open MPI's mpirun (4 and 5) sets for each process.

    It tells nothing about other nodes than this one: who runs rank 0, and the cross ranks, come
    from the rendezvous, where all ranks say where they are.
    """
    numbers = [env[f"OMPI_COMM_WORLD_{name}"] for name in NUMBERS]
    return _from_numbers(env, numbers, env.get("PMIX_NAMESPACE", "mpirun"))


def from_mpiexec(env: Mapping[str, str]) -> Task:
    """Read what the mpiexec of HPE's PALS or of MPICH (Hydra, also Intel's) sets.

    PALS: PALS_RANKID, PALS_LOCAL_RANKID, PALS_LOCAL_SIZE, PALS_APID, and PMI_SIZE, as on ALCF's
    Polaris. Hydra 4.0: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS. An mpiexec that is
    Open MPI's is read like its mpirun.
    """
    if "OMPI_COMM_WORLD_RANK" in env:
        return from_mpirun(env)
    numbers = [
        _first(env, "PALS_RANKID", "PMI_RANK"),
        _first(env, "PALS_SIZE", "PMI_SIZE"),
        _first(env, "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK", "MPI_LOCALRANKID"),
        _first(env, "PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"),
    ]
    return _from_numbers(env, numbers, env.get("PALS_APID", "mpiexec"))


def _first(env: Mapping[str, str], *names: str) -> str:
    """Return the first of these variables that is there; KeyError names the last."""
    return env[next((name for name in names if name in env), names[-1])]


def from_horovodrun(env: Mapping[str, str]) -> Task:
    """Read what horovodrun sets with Gloo; with MPI it is the MPI's own launcher that starts us."""
    if "HOROVOD_RANK" not in env and {"OMPI_COMM_WORLD_RANK", "PMI_RANK"} & set(env):
        return from_mpiexec(env)
    numbers = [env[f"HOROVOD_{name}"] for name in NUMBERS]
    # It gives all ranks the variables of the first node, SLURMD_NODENAME too.
    place = _from_numbers(env, numbers, "horovodrun", os.uname().nodename)
    node, nodes = int(env["HOROVOD_CROSS_RANK"]), int(env["HOROVOD_CROSS_SIZE"])
    return replace(place, cross_rank=node, cross_size=nodes, node=node)


def _from_numbers(env: Mapping[str, str], numbers: Sequence[str], job: str, host: str = "") -> Task:
    """Return the task of these NUMBERS; nothing is known of other nodes.

    Each is taken to have as many tasks as this one.
    """
    rank, size, local_rank, local_size = map(int, numbers)
    host = host or env.get("SLURMD_NODENAME") or os.uname().nodename
    return Task(
        rank=rank,
        size=size,
        local_rank=local_rank,
        local_size=local_size,
        cross_rank=rank // local_size,
        cross_size=-(-size // local_size),
        host=host,
        first_host=host if rank == 0 or local_size == size else _first_of_allocation(env),
        job=job,
        node=rank // local_size,
    )


def _first_of_allocation(env: Mapping[str, str]) -> str:
    """Return the node where rank 0 usually is, "" if unknown; the rendezvous looks there first."""
    if "SLURM_JOB_NODELIST" in env:
        return expand_nodes(env["SLURM_JOB_NODELIST"])[0]
    file = env.get("PBS_NODEFILE", "")
    if not os.path.exists(file):  # PBS keeps it on the first node, and containers may not show it
        return ""
    with open(file, encoding="utf-8") as lines:
        return lines.readline().strip()


def from_local(env: Mapping[str, str]) -> Task:
    """Read what `start.spawn` sets: all tasks on this host."""
    rank, size = int(env["RUNNER_TASK_RANK"]), int(env["RUNNER_TASK_COUNT"])
    host = os.uname().nodename
    return Task(rank, size, rank, size, 0, 1, host, host, env["RUNNER_TASK_JOB"], (host,) * size)


READERS = {
    "srun": from_srun,
    "mpirun": from_mpirun,
    "mpiexec": from_mpiexec,
    "horovodrun": from_horovodrun,
    "local": from_local,
}


def ranks_by_node(counts: Sequence[int], distribution: str, plane: int) -> tuple[int, ...]:
    """Return the node's index for each rank; () for `arbitrary`, which only its hostfile tells.

    `distribution` is SLURM_DISTRIBUTION, its part for nodes (before the first colon); `plane` is
    the number of ranks that a plane distribution gives a node at a time.
    """
    kind = distribution.partition(":")[0].partition(",")[0]
    if kind == "arbitrary":
        return ()
    at_a_time = {"cyclic": 1, "plane": max(plane, 1)}.get(kind, max(counts))
    left, order = list(counts), []
    while any(left):
        for node, count in enumerate(left):
            taken = min(count, at_a_time)
            order += [node] * taken
            left[node] -= taken
    return tuple(order)
